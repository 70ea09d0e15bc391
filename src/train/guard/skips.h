#pragma once
// Steps that were skipped because their loss or gradients were not finite or their loss was a spike, and their samples.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/snapshot/checkpoint.h"
#include "comm/scalars.h"
#include "config/option_names.h"
#include "optim/loss_scale.h"

namespace trireme {

/// The common result of all ranks in a step.
struct StepResult {
  double loss = 0;        ///< LossMean over the global batch: nats per token or sequence (regression: squared
                          ///< error)
  double norm = 0;        ///< global gradient norm before clipping
  bool finite = true;     ///< loss and norm are finite
  bool overflow = false;  ///< not finite in f16: perhaps only because of the loss scale
  bool skipped = false;   ///< not finite, or a loss above the limit: weights unchanged
  bool stop = false;      ///< a stop was requested on some rank
  bool saved = true;      ///< StepStart::saved on every rank
  bool copied = true;     ///< StepStart::copied on every rank
};

class SkipWatch {
 public:
  /// The run stops after `most` skips in a row. scaling: of a run in f16.
  SkipWatch(std::string run_dir, int64_t most, const std::optional<LossScaleOptions>& scaling = std::nullopt,
            OptionNames names = {})
      : run_dir_(std::move(run_dir)), maximum_(most), scaling_(scaling), names_(std::move(names)) {}

  /// Collective. Counts a step and its `samples` in `progress`, and warns if it was skipped (limit: a loss above it is
  /// a spike). After too many skips in a row, earlier attempts included, writes RUN/bad-samples.json, an array of
  /// {step, first_sample, last_sample, loss, norm} (numbers that are not finite as strings), and throws Error::numeric.
  /// In f16, numbers that are not finite are an overflow, which lowers the loss scale instead (optim/loss_scale.h);
  /// throws Error::numeric where that ends the run.
  void account(const StepResult& result, int64_t samples, double limit, RunCounters& progress, Scalars& scalars);

  struct Skip {
    int64_t step = 0;                            ///< counted from 1
    uint64_t first_sample = 0, last_sample = 0;  ///< global sample indices of its batch
    StepResult result;
  };

 private:
  void stop(int64_t in_a_row, Scalars& scalars) const;
  void overflow(RunCounters& progress) const;

  std::string run_dir_;
  int64_t maximum_;
  std::optional<LossScaleOptions> scaling_;
  OptionNames names_;
  std::vector<Skip> skips_;  ///< in a row, of this attempt
};

// Loss spikes: a loss far above the recent losses of the run. Pure functions, the same on every rank.

/// Adds a loss to the running mean and variance, which forget with a half-life of about 35 steps.
void add_loss(LossTrend& trend, double loss);

/// The loss above which a step is a spike: mean + score x standard deviation. Infinity during the first 50 losses and
/// for score 0. The deviation is at least 1 % of the mean, about how much the losses of a settled run differ.
double spike_limit(const LossTrend& trend, double score);

}  // namespace trireme
