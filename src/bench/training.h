#pragma once
// Training that is measured: a model with random weights, and steps of it over any ranks by the step that runs train
// by.

#include <memory>

#include "bench/ranks.h"
#include "train/step.h"

namespace trireme {

/// Shared by steps over different ranks. Borrows the operators.
struct MeasuredModel {
  /// Of the whole model.
  MeasuredModel(const Spec& model, DType type, Ops& operators, std::vector<int> exchange_cores);
  /// Of the part of a rank of the mesh. shard: what ranks with the same part share.
  MeasuredModel(const Spec& model, DType type, Ops& operators, std::vector<int> exchange_cores, const MeshShape& mesh,
                int rank, ShardChoice shard);

  Spec spec;
  DType dtype;
  Ops& ops;
  OptimizerOptions optimizer;
  ParameterTable table;
  TrainingState state;

 private:
  MeasuredModel(const Spec& model, DType type, Ops& operators, const OptimizerOptions& options, const Layout& held,
                int data_ranks, int data_rank);
};

/// Every call of run() is one step over the ranks that it was made with.
class MeasuredTraining {
 public:
  /// Collective over `rank`. mesh: of its ranks, as the model was made for. samples: of a step, over all ranks. Borrows
  /// the model and the context.
  MeasuredTraining(MeasuredModel& model, const RankContext& rank, const MeshShape& mesh, const ModelShape& shape,
                   int64_t samples, double learning_rate, std::unique_ptr<StepBatches> batches);
  StepTime run();
  /// Back to the first sample.
  void restart() { consumed_ = 0; }

 private:
  const RankContext& rank_;
  Session session_;
  std::unique_ptr<StepBatches> batches_;
  TrainStep step_;
  int64_t samples_, consumed_ = 0, steps_ = 0;
  double learning_rate_;
};

}  // namespace trireme
