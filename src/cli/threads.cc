#include "cli/threads.h"

#include <sched.h>

#include <algorithm>

#include "base/affinity.h"
#include "base/cgroup.h"
#include "base/log.h"
#include "base/size.h"

namespace trireme {

namespace {

constexpr int64_t kMostThreads = 1024;

}  // namespace

int compute_threads(int64_t requested) {
  CoreRequest request;
  request.offered = {inherited_cpus()};
  request.threads = static_cast<int>(checked_size(requested, 0, kMostThreads, "--threads"));
  request.sockets = sockets();
  request.quota = read_cgroup_limits().cpus;
  const CorePlan plan = plan_cores(physical_cores(), request);
  for (const std::string& warning : plan.warnings) log::warning("{}", warning);
  apply(plan);
  return plan.threads;
}

int default_threads() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (sched_getaffinity(0, sizeof cpus, &cpus) != 0) return 1;
  return std::max(1, CPU_COUNT(&cpus));
}

}  // namespace trireme
