#pragma once
// Measures complete training steps of a preset: forward, backward, exchange, clip and AdamW, by the step that training
// runs; on one rank beside the rate of the step's own GEMMs and, where asked for, the same step in PyTorch; on several,
// how the speed grows with their number.

#include <optional>
#include <string>
#include <vector>

#include "bench/ranks.h"
#include "bench/step_ceiling.h"
#include "comm/mesh.h"
#include "comm/rank_context.h"
#include "config/choices.h"
#include "model/spec.h"
#include "ops/backend.h"
#include "tensor/dtype.h"

namespace trireme {

struct StepBenchOptions {
  std::string preset = "gpt2-124m";
  std::optional<bool> bias;            ///< of all linear layers and norms, where the preset's shall not count
  int64_t batch = 4, sequence = 1024;  ///< batch: sequences per rank
  DType dtype = DType::f32;
  DeviceChoice device = DeviceChoice::automatic;
  int64_t steps = 5, warmup = 1;  ///< warmup: on one rank; several warm up with one step of each number of ranks
  Recompute recompute = Recompute::none;
  std::string tokens;  ///< token file; empty: random ids
  /// "2x1x1,1x2x1s": layouts of all ranks to compare, data x tensor x pipeline, c2: two chunks per stage, s: sequence
  /// parallelism (mesh.sequence); "all": every one without c and s
  std::string layouts;
  int64_t micro = 0;                      ///< with layouts: sequences per micro-batch at most; 0: micro_batches_of()
  ShardChoice shard = ShardChoice::none;  ///< with layouts: the state that data ranks share
  double peak_flops = 0;                  ///< of one rank, for the MFU; 0: measured (train/peak.h)
  bool cudnn = false;                     ///< attention by cuDNN (GpuOptions)
  bool pytorch = false;
  /// With pytorch: neither program holds memory while the other one is measured. Without it only where the memory is
  /// too small for both.
  bool apart = false;
  std::string python = ".venv/bin/python", peer_script = "bench/peers/pytorch_step.py";
};

/// Seconds of several steps.
struct StepTimes {
  double median = 0, fastest = 0, slowest = 0;
};

/// Another program's step, measured in turn with ours.
struct PeerStep {
  std::string mode;     ///< eager or compiled
  std::string skipped;  ///< why it was not measured; the rest is then empty
  bool apart = false;   ///< neither side held memory while the other one was measured
  StepTimes times;
  double our_seconds = 0;  ///< median of our steps between its own, or of those before them
  size_t peak_rss = 0;
  double loss = 0, our_loss = 0;  ///< of the last step: both started from the same weights and take the same tokens
  double ratio() const { return times.median / our_seconds; }  ///< above 1: we are faster
  /// Whether the losses agree, and the meaning of a difference.
  std::string loss_text() const;
};

/// A layout whose step was measured.
struct MeasuredLayout {
  MeshShape mesh;
  int64_t micro_batches = 1;       ///< per data rank
  double use = 1;                  ///< pipeline_use()
  bool sequence_parallel = false;  ///< mesh.sequence
  std::string name() const;        ///< "2x1x1", "1x2x2c2s"
};

struct StepBenchResult {
  double peak_flops = 0;  ///< of one rank: the base of the MFU
  bool peak_is_measured = true;
  double taken = 0;              ///< share of the ranks' processors that other programs had while it was measured
  std::vector<RanksTime> ranks;  ///< of 1, 2, 4, ... and all ranks of the job, or of layouts; empty for one rank
  std::vector<MeasuredLayout> layouts;  ///< those of `ranks`; empty if not requested. The following is of one:
  StepTimes times;
  double tokens_per_second = 0;
  double model_flops = 0;  ///< of one step: train_flops_per_token x tokens
  StepCeiling ceiling;     ///< of a CPU, as the next one
  double share = 0;        ///< median over the steps: model FLOP rate / the higher ceiling as it was after the step
  double loss = 0;         ///< of the last step
  size_t peak_rss = 0;     ///< bytes, without the measurement of the ceiling
  std::vector<PeerStep> peers;

  /// Against the best of the peers that were measured: tokens per second and peak memory. 0 without any.
  double peer_ratio() const;
  double peer_rss_ratio() const;
};

/// Collective. exchange_cores: where the exchange thread runs. Rank 0's result is the one to show. Throws Error::usage.
StepBenchResult bench_step(const StepBenchOptions& options, Backend& backend, const RankContext& rank,
                           const std::vector<int>& exchange_cores);

}  // namespace trireme
