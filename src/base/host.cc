#include "base/host.h"

#include <unistd.h>

namespace trireme {

std::string host_name() {
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) != 0) return "unknown";
  return name;
}

}  // namespace trireme
