#pragma once
// Measures fine-tuning steps on real rows: on one rank, beside the same steps in PyTorch where asked for; on several,
// how the speed grows with their number.

#include <string>
#include <vector>

#include "bench/ranks.h"
#include "bench/step_ceiling.h"
#include "comm/rank_context.h"
#include "ops/ops.h"

namespace trireme {

struct GlueBenchOptions {
  std::string model;  ///< folder or name on the hub: its sizes and tokenizer; weights are random
  std::string data_dir, task = "mrpc";
  int64_t batch = 32, steps = 5, max_length = 128;  ///< batch: per rank
  DType dtype = DType::f32;                         ///< of weights and activations; the peer's autocast
  bool pad = false, pytorch = false;
  std::string python = ".venv/bin/python", peer_script = "bench/peers/pytorch_glue.py";
};

/// The same steps in PyTorch, measured in turn with ours on the same rows.
struct GluePeer {
  std::string padding;  ///< dynamic: to a batch's longest row; or to the full length
  double rows_per_second = 0;
};

struct GlueBenchResult {
  double rows_per_second = 0;  ///< batch / median seconds, on one rank; beside peers those of all rounds
  double fastest = 0, median = 0, slowest = 0;
  double tokens_per_row = 0;          ///< without padding
  double model_flops_per_second = 0;  ///< on one rank; padding does not count
  StepCeiling ceiling;                ///< on one rank; of a GPU, zeros
  double share = 0;                   ///< of the ceiling, as in StepBenchResult
  std::vector<double> losses;         ///< of the timed steps on one rank
  std::vector<GluePeer> peers;
  std::vector<RanksTime> ranks;  ///< of 1, 2, 4, ... and all ranks of the job; empty for one
  /// Our rows per second over the peer's: above 1, ours is faster.
  double ratio(const GluePeer& peer) const { return rows_per_second / peer.rows_per_second; }
};

/// Collective. exchange_cores: where the exchange thread runs. Rank 0's result is the one to show.
GlueBenchResult bench_glue(const GlueBenchOptions& options, Ops& ops, const RankContext& rank,
                           const std::vector<int>& exchange_cores);

}  // namespace trireme
