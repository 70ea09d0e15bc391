#pragma once
// Models and data sets that a run names instead of a folder are fetched before the ranks read them.

#include <functional>
#include <string>

#include "comm/rank_context.h"
#include "comm/scalars.h"
#include "hub/place.h"

namespace trireme {

/// Collective. One rank of each host fetches what is missing in its cache, the others wait for it with one line. Throws
/// on all ranks where it cannot be had, or when the job is to stop: stop_reason says why, or nothing.
void fetch_named(const hub::Named& named, const RankContext& rank, Scalars& scalars,
                 const std::function<std::string()>& stop_reason);

}  // namespace trireme
