#pragma once
// A rank's part of a model: all of it, a tensor rank's share of each layer, or the parts of a pipeline stage, which
// share one workspace. The functions that run a batch are for a rank with all layers, in one slot.

#include <deque>

#include "model/stage_part.h"

namespace trireme {

class Stage {
 public:
  using Step = StagePart::Step;

  /// Allocates activations and scratch for at most shape.rows rows. Borrows ops, tensor, weights and the arrays of the
  /// views; `weights` may be null if all weights are always present.
  Stage(const Spec& spec, const ParameterViews& views, DType dtype, const ModelShape& shape, Ops& ops, int threads,
        TensorGroup* tensor = nullptr, WeightSource* weights = nullptr);

  /// Head::loss() of the batch; nothing is kept. Here and below the caller waits for the value.
  double loss(const Batch& batch);
  /// Forward and backward of loss x scale. write: overwrite for a step's first micro-batch, add for later ones. sink,
  /// if given, is notified of every gradient range in ascending order as backward finishes it: pass it on the last
  /// micro-batch only.
  double loss_and_backward(const Batch& batch, const Step& step, float scale, Write write, GradientSink* sink);
  /// Generation: runs the batch's rows against the cache and gives the logits of each sequence's last row, [sequences,
  /// vocabulary_rows] f32 (f64).
  void decode(const Batch& batch, const KeyValueCache& cache, View logits);
  /// Without a cache: logits of every row, [rows, vocabulary_rows], or of every sequence, [sequences, classes], of the
  /// activation type.
  void logits(const Batch& batch, View logits);
  void logits_without_rows();  ///< logits() of no batch: see StagePart
  /// Input of a block in the last loss_and_backward() or logits() of a training stage; index = layers gives the last
  /// one's output. For tests and tools.
  ConstView block_output(int64_t index) const { return parts_[0].activation(0, index); }

  StagePart& part(size_t chunk = 0) { return parts_[chunk]; }
  const Spec& spec() const { return spec_; }
  Context& context() { return workspace_.context(); }

 private:
  double read_loss();

  Spec spec_;
  StageWorkspace workspace_;
  std::deque<StagePart> parts_;
  Arena arena_;
  View loss_;
};

}  // namespace trireme
