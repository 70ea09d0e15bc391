#pragma once
// Training that is measured: a model with random weights, and steps of it over any ranks by the step that runs train
// by.

#include <memory>

#include "bench/ranks.h"
#include "train/plan.h"
#include "train/step.h"

namespace trireme {

/// A configuration for the plan of measured steps: its optimizer is AdamW without weight decay.
Config measured_config(DType dtype);

/// Shared by steps over different ranks: the part of a plan's rank, with random weights. Borrows the operators.
struct MeasuredModel {
  MeasuredModel(const RankPlan& plan, Ops& operators);

  Ops& ops;
  ParameterTable table;
  TrainingState state;
};

/// Every call of run() is one step over the ranks that it was made with.
class MeasuredTraining {
 public:
  /// Collective over `rank`. plan: of this rank among them, which holds what the model was made of. samples: of a step,
  /// over all ranks. Borrows the model and the context.
  MeasuredTraining(MeasuredModel& model, const RankContext& rank, const RankPlan& plan, int64_t samples,
                   double learning_rate, std::unique_ptr<StepBatches> batches);
  StepTime run();
  /// Back to the first sample.
  void restart() { consumed_ = 0; }
  /// The next step is the one after so many, as in a run that resumes.
  void begin_after(int64_t steps) { steps_ = steps, consumed_ = steps * samples_; }

 private:
  const RankContext& rank_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<StepBatches> batches_;
  TrainStep step_;
  int64_t samples_, consumed_ = 0, steps_ = 0;
  double learning_rate_;
};

}  // namespace trireme
