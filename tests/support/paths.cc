#include "tests/support/paths.h"

#include <cstdlib>

namespace trireme {

std::string source_dir() { return TRIREME_SOURCE_DIR; }
std::string trireme_path() { return TRIREME_BINARY; }
std::string mpirun_path() {
  const char* other = std::getenv("TRIREME_TEST_MPIRUN");
  return other ? other : TRIREME_MPIRUN;
}

}  // namespace trireme
