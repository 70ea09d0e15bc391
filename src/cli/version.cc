#include "cli/version.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "comm/mpi.h"
#include "ops/backend.h"
#include "ops/gpu_library.h"
#include "version_stamp.h"

namespace trireme {

std::string commit_text() { return TRIREME_COMMIT; }

std::string build_text() {
  // Two builds of one commit may also differ: in their options, libraries or changed files.
  const MappedFile executable("/proc/self/exe");
  return fmt::format("trireme {} commit {} compiler {}\nexecutable with XXH3 {}\nMPI {}", TRIREME_VERSION,
                     TRIREME_COMMIT, __VERSION__, hex64(xxh3(executable.bytes())), mpi::library());
}

std::string program_text() { return fmt::format("trireme {} (commit {})", TRIREME_VERSION, TRIREME_COMMIT); }

namespace {

std::string gpu_text() {
  const UsableGpu gpu = usable_gpu();
  return gpu.hardware.empty() ? "none: " + gpu.why_none : gpu.hardware;
}

}  // namespace

std::string version_text() {
  return fmt::format("{}\ncompiler  g++ {}\nbackends  cpu, reference{}\nGPU       {}\nMPI       {}\n{}", program_text(),
                     __VERSION__, gpu_library_path().empty() ? "" : ", cuda", gpu_text(), mpi::library(),
                     backend_versions());
}

}  // namespace trireme
