#pragma once
// One optimizer step: micro-batches, exchange, verdict, update. Every rank gets the same verdict and so decides the
// same.

#include <memory>
#include <optional>
#include <span>

#include "config/choices.h"
#include "model/pipeline_order.h"
#include "train/guard/skips.h"
#include "train/plan_check.h"
#include "train/session.h"
#include "train/step_batches.h"

namespace trireme {

/// The state of a run when a step begins.
struct StepStart {
  int64_t step = 0;       ///< steps done
  uint64_t consumed = 0;  ///< samples consumed
  int64_t update = 1;     ///< updates applied, this step's included
  double learning_rate = 0;
  double most_loss = 0;   ///< with a loss above it the step is skipped
  double loss_scale = 1;  ///< the backward pass is that of the loss times this (optim/loss_scale.h)
  bool saved = true;      ///< as this rank knows, the pending snapshot is published or has failed
  bool copied = true;     ///< and copied its part of one on local disks
  bool next = false;      ///< another step follows: its first batch goes to a device during this one
};

class TrainStep {
 public:
  /// Borrows both. seed: for dropout.
  TrainStep(Session& session, StepBatches& batches, uint64_t seed, LossMean mean = LossMean::tokens);

  /// Collective over the session's mesh.
  StepResult run(const StepStart& start);
  /// This rank's part of the last step.
  const StepPart& part() const { return part_; }
  /// The rows of the batches that the last step took in.
  const StepRows& rows() const { return rows_; }

 private:
  /// What is known of a batch that the stage holds.
  struct Held {
    uint64_t consumed = 0, number = 0;  ///< number: of StagePart::put(); 0: none
    uint64_t hash = 0;                  ///< with shares_batch()
    double terms = 0;                   ///< loss_terms(), with LossMean::micro_batches
  };
  double count();
  const Batch& fill(const StepPart& step, int64_t micro_batch);
  double mean_of(int64_t micro_batch) const;
  void run_micro_batches(const StepStart& start, float scale);
  void make_results();
  std::span<const double> read_results(const StepStart& start);
  Held put(const PipelineAction& action, const Batch& batch, uint64_t consumed);
  void put_next();
  double sum_of(std::span<const double> losses) const;
  void forward(const PipelineAction& action, const StepStart& start);
  void backward(const PipelineAction& action, float scale);
  StagePart& part_of(const PipelineAction& action);
  int64_t slot_of(const PipelineAction& action) { return action.micro_batch % part_of(action).slots(); }
  bool shares_batch() const;
  void compare_batches(int64_t step);
  StepResult agree(double loss, std::span<const double> norms, double counted, const StepStart& start);

  Session& session_;
  StepBatches& batches_;
  uint64_t seed_;
  LossMean mean_;
  Arena memory_;
  View results_;  ///< f64, of the operators' device: this step's losses by micro-batch, then values of the norm
  std::unique_ptr<PinnedMemory> read_;  ///< results_ on the host, where they are on another device
  StepPart part_;
  std::optional<StepPart> next_part_;  ///< of the next step, and its first batch
  Held next_;
  size_t slots_ = 1, filled_ = 0;  ///< batches that are valid at a time, and that were filled so far
  std::vector<double> counted_;    ///< with LossMean::micro_batches: what each of this rank's micro-batches counts
  uint64_t batch_hash_ = 0;        ///< hash of the step's tokens and targets
  StepRows rows_;
};

/// Collective. Mean loss over the batches of `steps` steps of `samples` samples each, from step number `from` on, which
/// have the same number of micro-batches; every rank computes its share and gets the same number. Nullopt when a stop
/// was requested on any rank.
std::optional<double> evaluate(Session& session, StepBatches& batches, int64_t steps, int64_t samples,
                               LossMean mean = LossMean::tokens, int64_t from = 0);
/// The same over `batches` global batches of fixed windows.
std::optional<double> evaluate(Session& session, const SampleSource& data, const BatchShape& shape, int64_t batches,
                               LossMean mean = LossMean::tokens, int64_t from = 0);

}  // namespace trireme
