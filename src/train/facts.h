#pragma once
// What a run says about itself at its start, and the memory it will take.

#include "comm/rank_context.h"
#include "ops/backend.h"
#include "report/metrics.h"
#include "train/peak.h"
#include "train/setup.h"

namespace trireme {

/// Bytes that this rank will take: weights, gradients, moments, activations, scratch, the snapshot of a save and the
/// exchange's buffers.
struct MemoryPlan {
  size_t state = 0, activations = 0, scratch = 0, snapshot = 0, exchange = 0;
  size_t total() const { return state + activations + scratch + snapshot + exchange; }
};
/// Whom a plan is made for.
struct PlannedRank {
  int rank = 0, threads = 1;
  HostMap hosts;  ///< of all ranks
};
inline PlannedRank planned(const RankContext& rank) { return {rank.rank(), rank.threads, rank.hosts}; }

/// What of the optimizer's state this rank keeps; none: all.
KeptState kept_states(const RunPlan& plan, const ParameterTable& table, const PlannedRank& rank);

/// table: what this rank holds of the plan's model.
MemoryPlan plan_memory(const RunPlan& plan, const ParameterTable& table, const Ops& ops, const PlannedRank& rank);

/// What the exchange of gradients sends from each host in a step, and what it would in the other order of the sum
/// (comm.reduce); empty where the data ranks are on one host, or not as many on each.
std::string describe_exchange(const RunPlan& plan, const ParameterTable& table, const PlannedRank& rank);

/// Throws Error::config with the numbers when the plans of this host's ranks do not fit in its memory.
void require_memory(const MemoryPlan& memory, const RunPlan& plan, const RankContext& rank);

RunFacts run_facts(const Setup& setup, const MemoryPlan& memory, const RankContext& rank, const Backend& backend,
                   const PeakRate& peak);

}  // namespace trireme
