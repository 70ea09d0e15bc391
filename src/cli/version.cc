#include "cli/version.h"

#include <fmt/format.h>

#include "base/file.h"
#include "base/hash.h"
#include "comm/mpi/mpi.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/onednn_version.h"
#include "version_stamp.h"

namespace trireme {

std::string commit_text() { return TRIREME_COMMIT; }

std::string build_text() {
  // Two builds of one commit differ too: in their options, libraries or changed files.
  const MappedFile executable("/proc/self/exe");
  return fmt::format("trireme {} commit {} compiler {}\nexecutable with XXH3 {}", TRIREME_VERSION, TRIREME_COMMIT,
                     __VERSION__, hex64(xxh3(executable.bytes())));
}

std::string version_text() {
  return fmt::format(
      "trireme {} (commit {})\ncompiler  g++ {}\nbackends  cpu, reference\nMPI       {}\noneDNN    {}\nCPU       {}: "
      "{}\n",
      TRIREME_VERSION, TRIREME_COMMIT, __VERSION__, mpi::library(), onednn_version_text(), cpu_brand_text(),
      cpu_features_text());
}

}  // namespace trireme
