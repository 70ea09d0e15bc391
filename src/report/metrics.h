#pragma once
// The records of a run: the trainer fills them, the sinks write them. Numbers are global (over all ranks) unless a
// comment says otherwise.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/gpu_reading.h"

namespace trireme {

/// The unit that a loss is averaged over.
enum class LossUnit : uint8_t {
  token,         ///< cross-entropy of tokens, nats: perplexity = exp of it
  row,           ///< cross-entropy of classes, nats
  pair,          ///< of answers, of which one is preferred: the loss that dpo.loss names
  squared_error  ///< of predicted numbers
};
/// "nats per token", "nats per row", "per pair", "squared error".
const char* name_of(LossUnit unit);

/// A named measure of an evaluation: ("accuracy", 0.81).
using NamedValues = std::vector<std::pair<std::string, double>>;

/// The rank that needs longest for its own work in a step.
struct SlowestRank {
  int rank = 0;
  double ratio = 1;  ///< its time divided by the median of all ranks
};
/// seconds: by rank; nothing for fewer than two ranks.
std::optional<SlowestRank> slowest_of(const std::vector<double>& seconds);

/// One log interval: the steps after the previous record up to and with `step`.
struct Metrics {
  int64_t step = 0;  ///< optimizer steps done
  double loss = 0;   ///< training loss of step `step`, mean over its valid tokens; NaN and Inf become null in JSON
  double learning_rate = 0;               ///< as used by step `step`
  double gradient_norm = 0;               ///< before clipping, of step `step`
  double tokens_per_second = 0;           ///< over the interval, without evaluations and snapshots
  double ms_per_step = 0;                 ///< wall time, mean over the interval, without evaluations and snapshots
  double exposed_share = 0;               ///< 0-1: part of the interval that rank 0 spent waiting for communication
  double mfu = 0;                         ///< 0-1: model FLOP/s divided by the ranks' summed peak
  uint64_t samples = 0;                   ///< samples consumed since step 0
  uint64_t tokens = 0;                    ///< tokens consumed since step 0
  int64_t skipped = 0;                    ///< steps skipped since step 0: not finite, or a spike
  std::optional<double> perplexity = {};  ///< exp(loss), if the loss is per token
  uint64_t memory_bytes = 0;              ///< resident memory of rank 0's process (0: unknown)
  uint64_t gpu_memory_bytes = 0;          ///< memory in use of rank 0's GPU, by all its programs
  uint64_t gpu_memory_size = 0;           ///< all of it, in bytes (0: computes on the CPU)
  double samples_per_second = 0;          ///< as tokens_per_second
  double flops_per_second = 0;            ///< likewise, the model's arithmetic, all ranks together
  double flops_per_device = 0;            ///< the same for one rank
  std::optional<double> epoch = {};       ///< epochs done, if rows make epochs
  double interval_loss = 0;         ///< mean over the interval's steps that were not skipped; NaN: all were skipped
  int64_t interval_skipped = 0;     ///< steps of the interval that were skipped
  int64_t interval_not_finite = 0;  ///< those of them whose loss or gradients were not finite
  std::optional<double> loss_scale = {};  ///< f16: of the next step
  double updates_per_second = 0;          ///< steps per second over the interval, as tokens_per_second
  NamedValues values = {};                ///< the task's measures, means over the interval, in their order
  std::vector<double> rank_seconds =
      {};  ///< each rank's own work per step, by rank; empty: one rank, logs that were read
  std::optional<SlowestRank> slowest = {};  ///< of them
  std::vector<GpuReading> gpus = {};   ///< by rank; empty: on CPUs, without a driver's library, in logs that were read
  std::optional<GpuSummary> gpu = {};  ///< of them
  double seconds_run = 0;              ///< in logs that were read: running time of all attempts up to this record
};

/// Result of one evaluation at a step.
struct EvaluationMetrics {
  int64_t step = 0;
  std::optional<double> train_loss;       ///< on fixed windows of the training tokens
  std::optional<double> validation_loss;  ///< of unit `unit`; the sinks add perplexity = exp(loss) if it is per token
  double seconds = 0;                     ///< duration of the evaluation
  bool best = false;                      ///< the best so far: by its validation loss, or by the run's metric
  LossUnit unit = LossUnit::token;
  std::optional<double> epoch = {};  ///< epochs done, if rows make epochs
  NamedValues values = {};           ///< the task's measures, in their order
};

/// The test after the last step.
struct TestMetrics {
  int64_t step = 0;
  double loss = 0;  ///< mean over tokens, nats; the sinks add perplexity = exp(loss)
  double seconds = 0;
};

/// A snapshot was published, or is complete on the hosts' own disks.
struct CheckpointEvent {
  enum class Place : uint8_t { run_folder, local_disks, copied /* from local disks into the run folder */ };

  int64_t step = 0;
  std::string path;
  double seconds = 0;           ///< from its start to its publication
  bool best = false;            ///< RUN/best names it now
  std::string parameters = {};  ///< hash of the weights, the same for the same weights on any number of ranks
  Place place = Place::run_folder;
};

/// Text that the model generated.
struct SampleText {
  int64_t step = 0;
  std::string prompt, text;  ///< any bytes; the sinks replace invalid UTF-8
};

/// An option of the run that a file, a flag or another option set.
struct OptionFact {
  std::string name, value, origin;
  bool in_head = false;  ///< shown in the log's head: it changes what is computed

  bool operator==(const OptionFact&) const = default;
};
using OptionFacts = std::vector<OptionFact>;

/// Facts about the run for the log's head and the report's table: (name, value) in the order to show.
using RunFacts = std::vector<std::pair<std::string, std::string>>;

}  // namespace trireme
