#pragma once
// One optimizer step: micro-batches, exchange, loss, update. Every rank sees the same loss and norm, so every rank
// takes the same decision.

#include "comm/scalars.h"
#include "model/stage.h"
#include "optim/optimizer.h"
#include "train/step_batches.h"

namespace trireme {

struct StepResult {
  double loss = 0;  ///< mean over what the global batch counts: nats per token or sequence (regression: squared error)
  double norm = 0;  ///< global gradient norm before clipping
  bool finite = true;    ///< loss and norm are
  bool skipped = false;  ///< not finite, or a loss above the limit: no weight changed
};

class TrainStep {
 public:
  TrainStep(Stage& stage, Optimizer& optimizer, Ops& ops, TrainingState& state, const ParameterTable& table,
            Scalars& scalars, StepBatches& batches, uint64_t seed, bool dropout);

  /// Step number `step` on the samples that follow the first `consumed`; `update` counts applied updates, this one
  /// included, from 1. A loss above `most_loss` changes no weight.
  StepResult run(int64_t step, uint64_t consumed, int64_t update, double learning_rate, double most_loss);

 private:
  double run_micro_batch(int64_t index, int64_t step, uint64_t consumed, float scale);

  Stage& stage_;
  Optimizer& optimizer_;
  Ops& ops_;
  TrainingState& state_;
  const ParameterTable& table_;
  Scalars& scalars_;
  StepBatches& batches_;
  uint64_t seed_;
  bool dropout_;
};

/// Mean loss over `batches` global batches of fixed windows; every rank computes its share and gets the same number.
/// Nothing when a stop was asked for on any rank meanwhile.
std::optional<double> evaluate(Stage& stage, Scalars& scalars, const SampleSource& data, const BatchShape& shape,
                               int64_t batches);

}  // namespace trireme
