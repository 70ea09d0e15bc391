#pragma once
// What a set of members computes with: the mesh and its groups, the model's stage with its memory, the optimizer. It
// borrows the training state, which outlives it (train/run.h), and can be destroyed and created again in the same
// process, with other members.

#include <memory>
#include <optional>

#include "comm/mesh.h"
#include "comm/rank_context.h"
#include "comm/scalars.h"
#include "exchange/mesh_devices.h"
#include "model/stage.h"
#include "model/tensor_group.h"
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
  std::optional<OptimizerOptions> optimizer;  ///< needed to train or to share weights; may be null otherwise
  std::vector<int> exchange_cores{};          ///< for threads that send messages between layers and stages; empty:
                                              ///< the creator's cores
};

class Session {
 public:
  /// Collective over the rank's world. table, state: of the part of the model that this rank holds
  /// (model/mesh_layout.h). Borrows everything except the options.
  static std::unique_ptr<Session> make(const SessionOptions& options, const ParameterTable& table, TrainingState& state,
                                       Ops& ops, const RankContext& rank);

  Mesh& mesh() { return mesh_; }
  Scalars& scalars() { return scalars_; }  ///< over all ranks, for the main thread
  Stage& stage() { return *stage_; }
  Optimizer& optimizer() { return *optimizer_; }  ///< only in a session that trains
  /// Receives the last micro-batch's gradients from backward: the optimizer, or what completes them for it.
  GradientSink& gradient_sink() { return sequence_sums_ ? static_cast<GradientSink&>(*sequence_sums_) : *optimizer_; }
  /// How many of `rows` rows of a micro-batch this rank has between layers.
  int64_t own_rows(int64_t rows) const { return tensor_ ? tensor_->share_of(rows).count : rows; }
  /// The model's weights, whether the data ranks share them or not.
  WeightSource& weights() { return shared_weights_ ? static_cast<WeightSource&>(*shared_weights_) : all_weights_; }
  Ops& ops() { return ops_; }
  TrainingState& state() { return state_; }
  const ParameterTable& table() const { return table_; }
  const RankContext& rank() const { return rank_; }
  StageLinks& links() { return *links_; }
  /// Before the host reads what a device has computed, if a library connects the ranks' devices: returns once all work
  /// issued so far is done. Meanwhile the heartbeat names what it waits for. Throws as wait_watching().
  void wait_for_ranks();
  /// Whether this rank's loss counts: only that of the last stage and tensor rank 0. Likewise, of the ranks that read
  /// the same batch only the first counts it.
  bool counts_loss() const { return links_->last() && place().tensor == 0; }
  bool counts_batch() const { return place().pipeline == 0 && place().tensor == 0; }

 private:
  /// With its mesh only; make() adds the rest.
  Session(const MeshShape& mesh, const ParameterTable& table, TrainingState& state, Ops& ops, const RankContext& rank);
  MeshPlace place() const { return mesh_.place(); }
  /// That share the state with this one; nullptr: none.
  Communicator* state_ranks();

  const ParameterTable& table_;
  TrainingState& state_;
  Ops& ops_;
  const RankContext& rank_;
  Mesh mesh_;
  MeshDevices devices_;
  Scalars scalars_;
  std::unique_ptr<Communicator> host_group_;  ///< ranks that share the state, if they are those of a host
  std::unique_ptr<Communicator> tied_pair_;   ///< first and last stage, if both hold a tied matrix
  std::optional<Optimizer> optimizer_;
  std::optional<TensorGroup> tensor_;
  std::optional<StageLinks> links_;
  WeightSource all_weights_;
  std::unique_ptr<SharedWeights> shared_weights_;  ///< if data ranks share weights
  std::optional<Stage> stage_;
  std::optional<SequenceParallelSums> sequence_sums_;  ///< with sequence parallelism
};

}  // namespace trireme
