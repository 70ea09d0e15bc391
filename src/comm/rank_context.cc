#include "comm/rank_context.h"

#include "base/log.h"
#include "comm/process.h"

namespace trireme {

std::unique_ptr<Communicator> RankContext::reporting_group() const {
  auto group = world.split(0, world.rank());
  group->report_to(heartbeat);
  return group;
}

RankContext rank_context(Process& process, int threads, std::function<bool()> stop_requested) {
  return {.world = process.world(),
          .host = process.host(),
          .hosts = process.hosts(),
          .log_name = log::identity().name,
          .heartbeat = &process.heartbeat(),
          .stop_requested = std::move(stop_requested),
          .threads = threads};
}

}  // namespace trireme
