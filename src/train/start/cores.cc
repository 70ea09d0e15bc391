#include "train/start/cores.h"

#include "base/cgroup.h"
#include "base/log.h"

namespace trireme {
namespace {

/// offered_cpus() of each rank on this host, in local rank order, which is rank order.
std::vector<Cpus> offers_of_host(const Process& process, Scalars& scalars, const Cpus& own) {
  std::vector<Cpus> offers;
  for (const std::string& line : scalars.gather(process.host() + "\n" + format_cpu_list(own))) {
    const size_t cut = line.find('\n');
    if (line.substr(0, cut) == process.host()) offers.push_back(parse_cpu_list(line.substr(cut + 1)));
  }
  return offers;
}

}  // namespace

CorePlan take_cores(const Config& config, const Process& process, Scalars& scalars) {
  const bool inherit = config.launch.bind == Binding::inherit;
  CoreRequest request;
  request.local_rank = process.local_rank();
  request.offered = offers_of_host(process, scalars, inherit ? inherited_cpus() : offered_cpus());
  request.inherit = inherit;
  request.threads = static_cast<int>(config.launch.threads);
  request.communication_cores = static_cast<int>(config.comm.cores);
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
