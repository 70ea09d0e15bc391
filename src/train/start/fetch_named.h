#pragma once
// Fetches the models and data sets that a run names (instead of giving a folder) before the ranks read them.

#include <functional>
#include <string>

#include "comm/rank_context.h"
#include "comm/scalars.h"
#include "hub/place.h"

namespace trireme {

/// Collective. One rank of each host fetches what is missing from its cache; the others log one line and wait. Throws
/// on all ranks if it cannot be fetched, or if the job is asked to stop: stop_reason returns why, or "".
void fetch_named(const hub::Named& named, const RankContext& rank, Scalars& scalars,
                 const std::function<std::string()>& stop_reason);

}  // namespace trireme
