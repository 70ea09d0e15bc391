#include "cli/version.h"

#include <fmt/format.h>

#include "comm/mpi/mpi.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/onednn_version.h"
#include "version_stamp.h"

namespace trireme {

std::string commit_text() { return TRIREME_COMMIT; }

std::string build_text() {
  return fmt::format("trireme {} commit {} compiler {}", TRIREME_VERSION, TRIREME_COMMIT, __VERSION__);
}

std::string version_text() {
  return fmt::format(
      "trireme {} (commit {})\ncompiler  g++ {}\nbackends  cpu, reference\nMPI       {}\noneDNN    {}\nCPU       {}: "
      "{}\n",
      TRIREME_VERSION, TRIREME_COMMIT, __VERSION__, mpi::library(), onednn_version_text(), cpu_brand_text(),
      cpu_features_text());
}

}  // namespace trireme
