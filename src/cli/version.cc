#include "cli/version.h"

#include <fmt/format.h>

#include "version_stamp.h"

namespace trireme {

std::string version_text() {
  return fmt::format("trireme {} ({})\ncompiler  {}\nmpi       {}\n", TRIREME_VERSION, TRIREME_COMMIT, __VERSION__,
                     TRIREME_MPI_CHOICE);
}

}  // namespace trireme
