#pragma once
// Training that is measured: a model with random weights, and steps of it over any ranks by the step that runs train
// by.

#include <memory>

#include "bench/ranks.h"
#include "train/step.h"

namespace trireme {

/// What steps over different ranks share. Borrows the operators.
struct MeasuredModel {
  MeasuredModel(const Spec& model, DType type, Ops& operators, std::vector<int> progress_cpus);

  Spec spec;
  DType dtype;
  Ops& ops;
  ParameterTable table;
  TrainingState state;
  OptimizerOptions optimizer;
};

/// Every call of run() is one step over the ranks that it was made with.
class MeasuredTraining {
 public:
  /// Collective over `rank`. shape: of one micro-batch per step. samples: of a step, over all ranks. Borrows the model
  /// and the context.
  MeasuredTraining(MeasuredModel& model, const RankContext& rank, const ModelShape& shape, int64_t samples,
                   double learning_rate, std::unique_ptr<StepBatches> batches);
  StepTime run();
  /// Back to the first sample.
  void restart() { consumed_ = 0; }

 private:
  Session session_;
  std::unique_ptr<StepBatches> batches_;
  TrainStep step_;
  int64_t samples_, consumed_ = 0, steps_ = 0;
  double learning_rate_;
};

}  // namespace trireme
