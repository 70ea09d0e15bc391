#pragma once
// Measures fine-tuning steps on conversations, of all weights or of adapters, by the step that `trireme sft` runs;
// where asked for, in turn with TRL's SFTTrainer (and PEFT) on the same conversations from the same weights.

#include <optional>
#include <string>
#include <vector>

#include "comm/rank_context.h"
#include "config/config.h"
#include "ops/backend.h"
#include "tensor/dtype.h"

namespace trireme {

struct SftBenchOptions {
  std::string preset = "smollm2-135m";
  int64_t conversations = 2000;        ///< at least 1; made up, by a fixed seed
  int64_t batch = 4, sequence = 1024;  ///< rows per step, and ids of a row at most
  DType dtype = DType::f32;            ///< of weights and activations; the peer's autocast
  LoraOptions lora;                    ///< rank 0: all weights are trained
  int64_t steps = 4;                   ///< timed ones of each side
  int64_t curve = 0;  ///< with trl: steps whose losses are compared, each of `batch` conversations in their order
  bool trl = false;
  std::string settings = "packing,grouping,packing-compiled,grouping-compiled";  ///< of TRL, those to measure
  std::string python = ".venv/bin/python", peer_script = "bench/peers/trl_sft.py";
};

/// What several steps of one side did.
struct SftRate {
  double seconds = 0, counted = 0, ids = 0, computed = 0;  ///< sums; computed: ids with padding
  size_t peak_rss = 0;                                     ///< bytes
  double counted_per_second() const { return counted / seconds; }
  double ids_per_second() const { return ids / seconds; }
  double padding() const { return 1 - ids / computed; }  ///< share of what is computed
};

/// A setting of TRL, measured in turn with ours.
struct SftPeer {
  std::string setting, skipped;  ///< why it was not measured; the rates are then empty
  SftRate theirs, ours;          ///< ours: of the steps before its own
  double ratio() const { return ours.counted_per_second() / theirs.counted_per_second(); }  ///< above 1: ours is faster
};

/// Losses of the same steps on both sides.
struct SftCurve {
  std::vector<double> ours, theirs;
  double largest_difference() const;
};

struct SftBenchResult {
  double mean_ids = 0, counted_share = 0;  ///< of the conversations
  double unused = 0;                       ///< share of our rows that is empty, which is not computed
  SftRate ours;                            ///< of all steps
  std::vector<SftPeer> peers;
  std::optional<SftCurve> curve;

  /// The least ratio of the peers that were measured; 0 without any.
  double peer_ratio() const;
};

/// On one rank. exchange_cores: where the exchange thread runs. Neither side holds memory while the other one is
/// measured. Throws Error::usage naming the flag, Error::config as with_adapters(), Error::io for a peer that does not
/// start; of a compiled setting that does not run, the reason is in the result instead.
SftBenchResult bench_sft(const SftBenchOptions& options, Backend& backend, const RankContext& rank,
                         const std::vector<int>& exchange_cores);

}  // namespace trireme
