#include "train/start/cores.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/cgroup.h"
#include "base/device_place.h"
#include "base/log.h"
#include "comm/agreement.h"

namespace trireme {
namespace {

/// A list of processors of each rank on this host, in local rank order, which is rank order. Hosts are distinguished as
/// MPI does, not by their names: in containers the ranks of a host may have several.
std::vector<Cpus> lists_of_host(const Process& process, Scalars& scalars, const Cpus& own) {
  std::vector<Cpus> lists;
  const std::vector<std::string> all = scalars.gather(format_cpu_list(own));
  const HostMap& hosts = process.hosts();
  for (const int rank : hosts.ranks_on(hosts.host_of(process.rank())))
    lists.push_back(parse_cpu_list(all[static_cast<size_t>(rank)]));
  return lists;
}

CoreRequest request_of(const LaunchOptions& launch, int64_t reserved, const Process& process, Scalars& scalars) {
  const bool inherit = launch.bind == Binding::inherit;
  CoreRequest request;
  request.local_rank = process.local_rank();
  request.offered = lists_of_host(process, scalars, inherit ? inherited_cpus() : offered_cpus());
  request.inherit = inherit;
  request.threads = static_cast<int>(launch.threads);
  request.communication_cores = static_cast<int>(reserved);
  request.communicates = process.size() > 1;
  request.sockets = sockets();
  request.quota = read_cgroup_limits().cpus;
  return request;
}

/// texts: of every rank.
void log_ranks(const std::vector<std::string>& texts) {
  for (size_t rank = 0; rank < texts.size(); ++rank) log::info("rank {}: {}", rank, texts[rank]);
}

}  // namespace

CorePlan take_cores(const LaunchOptions& launch, int64_t reserved, const Process& process, Scalars& scalars) {
  CorePlan plan = plan_cores(physical_cores(), request_of(launch, reserved, process, scalars));
  log_ranks(scalars.gather(plan.text));
  if (process.local_rank() == 0) {
    for (const std::string& warning : plan.warnings) log::warning("{}", warning);
  }
  apply(plan);
  return plan;
}

CorePlan take_cores(int64_t threads, const Process& process, Scalars& scalars) {
  LaunchOptions launch;
  launch.threads = threads;
  return take_cores(launch, CommOptions().cores, process, scalars);
}

CorePlan move_to_gpus(const CorePlan& before, const std::string& bus, const LaunchOptions& launch, int64_t reserved,
                      const Process& process, Scalars& scalars) {
  DevicePlace place;
  together(scalars, [&] { place = place_of_device(bus); });
  if (scalars.any(place.cpus.empty())) return before;
  CoreRequest request = request_of(launch, reserved, process, scalars);
  request.near = lists_of_host(process, scalars, place.cpus);
  CorePlan plan;
  together(scalars, [&] { plan = plan_cores(physical_cores(), request); });
  const bool far = std::ranges::find_first_of(plan.cpus, place.cpus) == plan.cpus.end();
  log_ranks(scalars.gather(
      fmt::format("GPU {}, {}: {}{}", bus, place.text(), plan.text,
                  far ? fmt::format("; near the GPU are processors {}", format_cpu_list(place.cpus)) : std::string())));
  for (const std::string& warning : plan.warnings) {
    if (process.local_rank() == 0 && std::ranges::find(before.warnings, warning) == before.warnings.end())
      log::warning("{}", warning);
  }
  together(scalars, [&] { apply(plan); });
  return plan;
}

}  // namespace trireme
