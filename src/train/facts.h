#pragma once
// What a run logs about itself at its start.

#include "comm/rank_context.h"
#include "ops/backend.h"
#include "optim/schedule.h"
#include "report/metrics.h"
#include "train/peak.h"
#include "train/plan.h"

namespace trireme {

/// Bytes of gradients that each host sends per step, and with the other value of comm.reduce; empty if all data ranks
/// are on one host or the hosts have different numbers of them.
std::string describe_exchange(const Config& config, const RankPlan& plan);
/// How gradients are added, where that needs a word: by a library (its name and version), or as comm.reduce auto chose
/// for GPUs of several hosts; else empty.
std::string describe_sums(const Config& config, const RankPlan& plan, const std::string& library);

/// Throws Error::config with the numbers when the plans of this host's ranks do not fit in its memory.
void require_memory(const RankPlan& plan, const RankContext& rank, const Device& device, const OptionNames& names);

/// Facts of any training: model, precision, mesh, ranks, memory, and the share of the peak for rows of `sequence`
/// tokens.
RunFacts plan_facts(const RunPlan& plan, const RankContext& rank, const Backend& backend, const PeakRate& peak,
                    int64_t sequence);
/// Optimizer, schedule and number formats of a training. schedule: of the run.
RunFacts training_facts(const RunPlan& plan, const RateSchedule& schedule);
/// The options that have an origin, in the order of their declaration.
OptionFacts option_facts(const LoadedConfig& loaded);

}  // namespace trireme
