#include "cli/threads.h"

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

}  // namespace trireme
