#pragma once
// What a run says about itself at its start.

#include "comm/rank_context.h"
#include "ops/backend.h"
#include "report/metrics.h"
#include "train/peak.h"
#include "train/start/setup.h"

namespace trireme {

/// What the exchange of gradients sends from each host in a step, and what it would in the other order of the sum
/// (comm.reduce); empty where the data ranks are on one host, or not as many on each.
std::string describe_exchange(const RunPlan& plan);

/// Throws Error::config with the numbers when the plans of this host's ranks do not fit in its memory.
void require_memory(const RunPlan& plan, const RankContext& rank);

RunFacts run_facts(const Setup& setup, const RankContext& rank, const Backend& backend, const PeakRate& peak);

}  // namespace trireme
