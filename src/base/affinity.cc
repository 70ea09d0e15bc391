#include "base/affinity.h"

#include <fmt/ranges.h>
#include <sched.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace trireme {

void pin_this_thread(std::span<const int> cpus) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (const int cpu : cpus) CPU_SET(static_cast<size_t>(cpu), &mask);
  require(sched_setaffinity(0, sizeof mask, &mask) == 0, ErrorKind::config,
          "cannot run on processors {}: {}; set launch.bind inherit to keep the binding that the launcher set",
          fmt::join(cpus, ","), std::strerror(errno));
}

}  // namespace trireme
