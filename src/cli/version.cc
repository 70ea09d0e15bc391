#include "cli/version.h"

#include <fmt/format.h>

#include "base/file.h"
#include "base/hash.h"
#include "comm/mpi/mpi.h"
#include "ops/backend.h"
#include "version_stamp.h"

namespace trireme {

std::string commit_text() { return TRIREME_COMMIT; }

std::string build_text() {
  // Two builds of one commit may also differ: in their options, libraries or changed files.
  const MappedFile executable("/proc/self/exe");
  return fmt::format("trireme {} commit {} compiler {}\nexecutable with XXH3 {}", TRIREME_VERSION, TRIREME_COMMIT,
                     __VERSION__, hex64(xxh3(executable.bytes())));
}

std::string program_text() { return fmt::format("trireme {} (commit {})", TRIREME_VERSION, TRIREME_COMMIT); }

std::string version_text() {
  return fmt::format("{}\ncompiler  g++ {}\nbackends  cpu, reference\nMPI       {}\n{}", program_text(), __VERSION__,
                     mpi::library(), backend_versions());
}

}  // namespace trireme
