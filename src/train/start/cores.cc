#include "train/start/cores.h"

#include "base/cgroup.h"
#include "base/log.h"

namespace trireme {
namespace {

/// offered_cpus() of each rank on this host, in local rank order, which is rank order. Hosts are told apart as MPI
/// does, not by their names: in containers the ranks of a host may have several.
std::vector<Cpus> offers_of_host(const Process& process, Scalars& scalars, const Cpus& own) {
  std::vector<Cpus> offers;
  const std::vector<std::string> all = scalars.gather(format_cpu_list(own));
  const HostMap& hosts = process.hosts();
  for (const int rank : hosts.ranks_on(hosts.host_of(process.rank())))
    offers.push_back(parse_cpu_list(all[static_cast<size_t>(rank)]));
  return offers;
}

}  // namespace

CorePlan take_cores(const LaunchOptions& launch, int64_t reserved, const Process& process, Scalars& scalars) {
  const bool inherit = launch.bind == Binding::inherit;
  CoreRequest request;
  request.local_rank = process.local_rank();
  request.offered = offers_of_host(process, scalars, inherit ? inherited_cpus() : offered_cpus());
  request.inherit = inherit;
  request.threads = static_cast<int>(launch.threads);
  request.communication_cores = static_cast<int>(reserved);
  request.communicates = process.size() > 1;
  request.sockets = sockets();
  request.quota = read_cgroup_limits().cpus;
  CorePlan plan = plan_cores(physical_cores(), request);
  const std::vector<std::string> plans = scalars.gather(plan.text);
  for (size_t rank = 0; rank < plans.size(); ++rank) log::info("rank {}: {}", rank, plans[rank]);
  if (process.local_rank() == 0) {
    for (const std::string& warning : plan.warnings) log::warning("{}", warning);
  }
  apply(plan);
  return plan;
}

}  // namespace trireme
