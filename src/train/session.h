#pragma once
// What a set of members computes with: the mesh and its groups, the model's stage over its memory, the optimizer. It
// borrows the training state, which outlives it (train/run.h), and can be ended and made again in the same process,
// over other members.

#include <memory>
#include <optional>

#include "comm/mesh.h"
#include "comm/rank_context.h"
#include "comm/scalars.h"
#include "model/stage.h"
#include "ops/backend.h"
#include "optim/optimizer.h"

namespace trireme {

struct SessionOptions {
  Spec spec;
  DType dtype = DType::f32;
  ModelShape shape;
  MeshShape mesh;                             ///< as resolve_mesh() gave it
  std::optional<OptimizerOptions> optimizer;  ///< none: nothing is trained
};

class Session {
 public:
  /// Collective over the rank's world. table, state: of the whole model. Borrows everything but the options.
  Session(const SessionOptions& options, const ParameterTable& table, TrainingState& state, Ops& ops,
          const RankContext& rank);

  Mesh& mesh() { return mesh_; }
  Scalars& scalars() { return scalars_; }  ///< of the mesh's world, for the rank's main thread
  Stage& stage() { return stage_; }
  Optimizer& optimizer() { return *optimizer_; }  ///< of a session that trains
  Ops& ops() { return ops_; }
  TrainingState& state() { return state_; }
  const ParameterTable& table() const { return table_; }
  const RankContext& rank() const { return rank_; }

 private:
  const ParameterTable& table_;
  TrainingState& state_;
  Ops& ops_;
  const RankContext& rank_;
  Mesh mesh_;
  Scalars scalars_;
  std::unique_ptr<Communicator> exchange_group_;  ///< of the data axis, for the exchange's own thread
  std::optional<Optimizer> optimizer_;
  Stage stage_;
};

}  // namespace trireme
