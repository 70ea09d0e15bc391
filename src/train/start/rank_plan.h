#pragma once
// What one rank holds of the model, computes with and takes of memory: resolved once from the configuration, the model
// and the ranks, and handed on. Runs, `bench step`, `bench glue` and the table of `config show` have it from here.

#include <optional>
#include <vector>

#include "comm/rank_context.h"
#include "config/config.h"
#include "model/parameter_table.h"
#include "train/session.h"
#include "train/step_batches.h"

namespace trireme {

/// Whom a plan is made for.
struct PlannedRank {
  int rank = 0, threads = 1;
  HostMap hosts;                      ///< of all ranks
  std::vector<int> exchange_cores{};  ///< where the exchange thread runs; empty: anywhere
};
PlannedRank planned(const RankContext& rank, std::vector<int> exchange_cores = {});

/// The largest step of a rank.
struct StepSize {
  int64_t micro_batches = 1;
  bool varies = false;          ///< a step may have more of them
  int64_t micro_sequences = 0;  ///< of the largest micro-batch
  int64_t micro_rows = 0;       ///< its tokens
  int64_t step_rows = 0;        ///< tokens of all micro-batches
};
/// Of steps whose sequences have one length.
StepSize step_size(const BatchShape& batch);

/// Bytes that a rank will take: weights, gradients, moments, activations, scratch, the snapshot of a save and the
/// exchange's buffers.
struct MemoryPlan {
  size_t state = 0, activations = 0, scratch = 0, snapshot = 0, exchange = 0;
  size_t total() const { return state + activations + scratch + snapshot + exchange; }
};

/// What members compute with, and what that comes to on this rank. The mesh has every axis filled in.
struct RankPlan : SessionOptions {
  PlannedRank rank;
  InitScheme init_scheme = InitScheme::gpt2;  ///< of weights that start from scratch
  bool trains = true;                         ///< else it only evaluates: no gradients, no moments, no snapshots
  StepSize step;
  std::optional<ParameterTable> table;  ///< what this rank holds of the model
  KeptState kept;                       ///< what it keeps of the state; none: all
  MemoryPlan memory;                    ///< by plan_memory()
};

/// Fills in what follows from the plan's spec, init_scheme and mesh; all but the memory. Throws Error::config for a
/// mesh that the model cannot have.
void plan_rank(RankPlan& plan, const Config& config, const StepSize& step, const PlannedRank& rank);

/// Fills in the memory of a plan that plan_rank() has filled in.
void plan_memory(RankPlan& plan, const Ops& ops);

}  // namespace trireme
