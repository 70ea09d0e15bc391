#include "tests/support/paths.h"

namespace trireme {

std::string source_dir() { return TRIREME_SOURCE_DIR; }
std::string trireme_path() { return TRIREME_BINARY; }
std::string mpirun_path() { return TRIREME_MPIRUN; }

}  // namespace trireme
