#include "train/start/fetch_named.h"

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/log.h"
#include "comm/agreement.h"
#include "comm/heartbeat.h"

namespace trireme {

void fetch_named(const hub::Named& named, const RankContext& rank, Scalars& scalars,
                 const std::function<std::string()>& stop_reason) {
  const auto alive = [&] {
    if (rank.heartbeat != nullptr) rank.heartbeat->move();
    const std::string reason = stop_reason ? stop_reason() : "";
    require(reason.empty(), ErrorKind::stopped,
            "{} while models and data were fetched: run the same command to continue", reason);
  };
  const auto need = [](const hub::Place& place, const std::string& name) {
    require(place.why_not.empty(), ErrorKind::io, "no folder {} on this host{}", name, place.why_not);
  };
  together(scalars, [&] {
    const std::vector<std::string> missing = still_to_fetch(named);
    if (missing.empty()) return;
    if (rank.local_rank() != 0) {
      log::info_all("waiting until another rank of {} has fetched {}", rank.host, fmt::join(missing, ", "));
      return;
    }
    if (!named.model.empty()) need(hub::place_of_model(named.model, alive), named.model);
    if (!named.tokenizer.empty()) need(hub::place_of_tokenizer(named.tokenizer, alive), named.tokenizer);
    if (!named.glue_task.empty()) need(hub::place_of_glue(named.glue_task, alive), "of " + named.glue_task);
  });
}

}  // namespace trireme
