#pragma once
// One optimizer step: micro-batches, exchange, verdict, update. Every rank hears the same verdict, so every rank takes
// the same decision.

#include <span>

#include "config/choices.h"
#include "model/pipeline_order.h"
#include "train/session.h"
#include "train/step_batches.h"

namespace trireme {

/// Where a run stands when a step begins.
struct StepStart {
  int64_t step = 0;       ///< steps done
  uint64_t consumed = 0;  ///< samples consumed
  int64_t update = 1;     ///< updates applied, this step's included
  double learning_rate = 0;
  double most_loss = 0;  ///< a loss above it changes no weight
  bool saved = true;     ///< this rank has nothing left to write of the snapshot under way
  bool copied = true;    ///< nor to copy of one on local disks
};

/// What all ranks came to.
struct StepResult {
  double loss = 0;     ///< LossMean over what the global batch counts: nats per token or sequence (regression: squared
                       ///< error)
  double norm = 0;     ///< global gradient norm before clipping
  bool finite = true;  ///< loss and norm are
  bool skipped = false;  ///< not finite, or a loss above the limit: no weight changed
  bool stop = false;     ///< some rank was asked to stop
  bool saved = true;     ///< StepStart::saved on every rank
  bool copied = true;    ///< StepStart::copied likewise
};

class TrainStep {
 public:
  /// Borrows both. seed: of dropout.
  TrainStep(Session& session, StepBatches& batches, uint64_t seed, LossMean mean = LossMean::tokens);

  /// Collective over the session's mesh.
  StepResult run(const StepStart& start);

 private:
  double count(uint64_t consumed);
  double mean_of(int64_t micro_batch) const;
  void run_micro_batches(const StepStart& start, float scale);
  double read_loss() const;
  void forward(const PipelineAction& action, const StepStart& start);
  void backward(const PipelineAction& action, const StepStart& start, float scale);
  StagePart& part_of(const PipelineAction& action);
  int64_t slot_of(const PipelineAction& action) { return action.micro_batch % part_of(action).slots(); }
  bool shares_batch() const;
  void compare_batches(std::span<const double> halves, int64_t step) const;
  StepResult agree(double loss, std::span<const double> norms, double counted, const StepStart& start);

  Session& session_;
  StepBatches& batches_;
  uint64_t seed_;
  LossMean mean_;
  Arena memory_;
  View losses_;                  ///< [micro-batches] f64, of this step
  std::vector<double> counted_;  ///< with LossMean::micro_batches what each of this rank's counts, by its number
  uint64_t batch_hash_ = 0;      ///< of the step's tokens and targets
};

/// Collective. Mean loss over `batches` global batches of fixed windows; every rank computes its share and gets the
/// same number. Nothing when a stop was asked for on any rank meanwhile.
std::optional<double> evaluate(Session& session, const SampleSource& data, const BatchShape& shape, int64_t batches,
                               LossMean mean = LossMean::tokens);

}  // namespace trireme
