#include "cli/version.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "comm/mpi/mpi.h"
#include "ops/backend.h"
#include "ops/gpu_library.h"
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

namespace {

/// The GPU that run.device auto takes, or why there is none.
std::string gpu_text() {
  const std::string library = gpu_library_path();
  if (library.empty()) return "none: this build has no libtrireme_cuda.so (docs/gpu.md)";
  try {
    return open_gpu_backend(library).hardware;
  } catch (const Error& e) {
    return fmt::format("none: {}", e.what());
  }
}

}  // namespace

std::string version_text() {
  return fmt::format("{}\ncompiler  g++ {}\nbackends  cpu, reference{}\nGPU       {}\nMPI       {}\n{}", program_text(),
                     __VERSION__, gpu_library_path().empty() ? "" : ", cuda", gpu_text(), mpi::library(),
                     backend_versions());
}

}  // namespace trireme
