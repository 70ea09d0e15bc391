#pragma once
// What one rank holds of the model, how it computes and how much memory it needs: resolved once from the configuration,
// the model and the ranks. Used by runs, `bench step`, `bench glue` and the table of `config show`.

#include <optional>
#include <vector>

#include "comm/rank_context.h"
#include "config/config.h"
#include "model/parameter_table.h"
#include "train/session.h"
#include "train/step_batches.h"

namespace trireme {

/// The rank that a plan is made for.
struct PlannedRank {
  int rank = 0, threads = 1;
  HostMap hosts;                      ///< of all ranks
  std::vector<int> exchange_cores{};  ///< where the exchange thread runs; empty: anywhere
  bool gpu = false;                   ///< all ranks compute on GPUs
};
PlannedRank planned(const RankContext& rank, std::vector<int> exchange_cores = {}, bool gpu = false);

/// The largest step of a rank.
struct StepSize {
  int64_t micro_batches = 1;
  bool varies = false;          ///< some steps may have more
  bool uneven = false;          ///< micro-batches may have fewer tokens than the largest
  int64_t micro_sequences = 0;  ///< in the largest micro-batch
  int64_t micro_rows = 0;       ///< tokens in the largest micro-batch
  int64_t step_rows = 0;        ///< tokens of all micro-batches
  int64_t scored = 0;           ///< sequences of the largest micro-batch with a SequenceLoss; 0: none has one
};
/// For steps whose sequences all have the same length.
StepSize step_size(const BatchShape& batch);

/// Bytes that a rank will need: weights, gradients, moments, activations, scratch, the copy for a snapshot, the
/// buffers of the exchange, and what NCCL is likely to take (kLinkBytes of tensor/device_network.h).
struct MemoryPlan {
  size_t state = 0, activations = 0, scratch = 0, snapshot = 0, exchange = 0, nccl = 0;
  size_t total() const { return on_device() + snapshot; }
  /// Where tensors are; snapshots are always on the host.
  size_t on_device() const { return state + activations + scratch + exchange + nccl; }
};

/// What members compute with, and the result on this rank. Every axis of the mesh is resolved.
struct RankPlan : SessionOptions {
  PlannedRank rank;
  InitScheme init_scheme = InitScheme::gpt2;  ///< for weights that start from scratch
  Trained trained;                            ///< which parameters are trained
  bool trains = true;                         ///< false: it only evaluates, without gradients, moments and snapshots
  StepSize step;
  std::optional<ParameterTable> table;  ///< the part of the model that this rank holds
  KeptState kept;                       ///< the part of the state that it keeps; empty: all
  MemoryPlan memory;                    ///< set by plan_memory()
};

/// Which parameters of a model the configuration trains: of one with adapters these, and lora.modules-to-save. Throws
/// Error::config as Trained::check() and trained_beside_adapters().
Trained trained_of(const Config& config, const Spec& spec);

/// "1.23M of 124.44M parameters, in 12 of 148 tensors", of the complete model.
std::string describe_trained(const ParameterTable& whole);

/// Fills in what follows from the plan's spec, init_scheme and mesh, except the memory. Throws Error::config for a mesh
/// that does not fit the model, and as trained_of().
void plan_rank(RankPlan& plan, const Config& config, const StepSize& step, const PlannedRank& rank);

/// Fills in the memory of a plan that plan_rank() has filled in.
void plan_memory(RankPlan& plan, const Ops& ops);

}  // namespace trireme
