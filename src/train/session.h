#pragma once
// What a set of members computes with: the mesh and its groups, the model's stage over its memory, the optimizer. It
// borrows the training state, which outlives it (train/run.h), and can be ended and made again in the same process,
// over other members.

#include <memory>
#include <optional>

#include "comm/mesh.h"
#include "comm/rank_context.h"
#include "comm/scalars.h"
#include "model/shared_rows.h"
#include "model/stage.h"
#include "ops/backend.h"
#include "optim/optimizer.h"
#include "optim/shared_weights.h"
#include "train/stage_links.h"

namespace trireme {

struct SessionOptions {
  Spec spec;
  DType dtype = DType::f32;
  ModelShape shape;
  MeshShape mesh;                             ///< as resolve_mesh() gave it
  std::optional<OptimizerOptions> optimizer;  ///< of who trains or shares weights; else it may be none
  std::vector<int> exchange_cores{};  ///< threads that carry messages between layers and stages run on these; empty:
                                      ///< where their creator does
};

class Session {
 public:
  /// Collective over the rank's world. table, state: of what this rank holds of the model (model/mesh_layout.h).
  /// Borrows everything but the options.
  Session(const SessionOptions& options, const ParameterTable& table, TrainingState& state, Ops& ops,
          const RankContext& rank);

  Mesh& mesh() { return mesh_; }
  Scalars& scalars() { return scalars_; }  ///< of the mesh's world, for the rank's main thread
  Stage& stage() { return stage_; }
  Optimizer& optimizer() { return *optimizer_; }  ///< of a session that trains
  /// Whom backward tells of the last micro-batch's gradients: the optimizer, or who completes them for it.
  GradientSink& gradient_sink() { return shared_rows_ ? static_cast<GradientSink&>(*shared_rows_) : *optimizer_; }
  /// Of so many rows of a micro-batch those that this rank has between layers.
  int64_t own_rows(int64_t rows) const { return tensor_ ? tensor_->share_of(rows).count : rows; }
  /// Of the model's weights, where the data ranks share them or not.
  WeightSource& weights() { return shared_weights_ ? static_cast<WeightSource&>(*shared_weights_) : all_weights_; }
  Ops& ops() { return ops_; }
  TrainingState& state() { return state_; }
  const ParameterTable& table() const { return table_; }
  const RankContext& rank() const { return rank_; }
  StageLinks& links() { return links_; }
  /// Of ranks that compute the same loss the first one's counts: of the last stage and tensor rank 0. Likewise, of
  /// those that read the same batch the first one's count of it.
  bool counts_loss() const { return links_.last() && place().tensor == 0; }
  bool counts_batch() const { return place().pipeline == 0 && place().tensor == 0; }

 private:
  MeshPlace place() const { return mesh_.place(); }
  std::unique_ptr<SharedWeights> make_shared_weights(const SessionOptions& options);

  const ParameterTable& table_;
  TrainingState& state_;
  Ops& ops_;
  const RankContext& rank_;
  Mesh mesh_;
  Scalars scalars_;
  std::unique_ptr<Communicator> exchange_group_;  ///< of the data axis, for the exchange's own thread
  std::unique_ptr<Communicator> tensor_group_;    ///< of the tensor axis, for its sums' own thread; none: one rank
  std::unique_ptr<Communicator> weights_group_;   ///< who shares the state, where weights come from owners
  std::unique_ptr<Communicator> tied_pair_;       ///< first and last stage, where both hold a tied matrix
  std::optional<Optimizer> optimizer_;
  std::optional<TensorGroup> tensor_;
  StageLinks links_;
  WeightSource all_weights_;
  std::unique_ptr<SharedWeights> shared_weights_;  ///< where data ranks share weights
  Stage stage_;
  std::optional<SharedRowSums> shared_rows_;  ///< where tensor ranks share rows
};

}  // namespace trireme
