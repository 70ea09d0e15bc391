#pragma once
// A model over the tensor and pipeline ranks of a mesh that runs one micro-batch at a time, one stage after the other:
// for uses without the speed of training (parity, sampling). Training's stages are train/session.

#include <memory>
#include <optional>

#include "comm/mesh.h"
#include "model/stage.h"

namespace trireme {

class MeshStage {
 public:
  /// Collective over the mesh; nullptr: this rank has all of the model. views: of this rank's part. Borrows ops, the
  /// mesh and the arrays behind views. weights: makes these readable; nullptr: they are.
  MeshStage(const Spec& spec, const ParameterViews& views, DType dtype, const ModelShape& shape, Ops& ops, int threads,
            Mesh* mesh, WeightSource* weights = nullptr);

  // Collective; every rank gets the result of the Stage function with this name.
  double loss_and_backward(const Batch& batch, float scale);
  void logits(const Batch& batch, View logits);
  /// cache: of this rank's layers and heads.
  void decode(const Batch& batch, const KeyValueCache& cache, View logits);

  Context& context() { return stage_.context(); }

 private:
  bool first() const { return !pipeline_ || pipeline_->rank() == 0; }
  bool last() const { return !pipeline_ || pipeline_->rank() + 1 == pipeline_->size(); }
  /// The message of a neighbour; empty at the end of the pipeline.
  View arrival(bool from_before, int64_t rows);
  View buffer(bool wanted, View rows, int64_t count) const { return wanted ? rows.rows_slice(0, count) : View(); }
  void hand_on(ConstView rows, bool to_behind);
  void forward(const Batch& batch, const KeyValueCache* cache);
  /// The last stage's, on every stage.
  void share(View of_last_stage);

  std::unique_ptr<Communicator> pipeline_;  ///< none: one rank
  std::optional<TensorGroup> tensor_;
  Arena arena_;
  Ops& ops_;
  View loss_;      ///< [1] f64
  View in_, out_;  ///< [rows, width] passed between stages
  Stage stage_;
};

}  // namespace trireme
