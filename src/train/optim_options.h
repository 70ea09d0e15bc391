#pragma once
// The options of group optim as the optimizer takes them.

#include "comm/rank_context.h"
#include "config/config.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

namespace trireme {

Schedule schedule_of(const Config& config);
/// progress_cpus: where the exchange thread runs; empty: anywhere.
OptimizerOptions optimizer_options(const Config& config, const RankContext& rank, std::vector<int> progress_cpus);

}  // namespace trireme
