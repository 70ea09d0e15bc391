#pragma once
// The model as a list: embedding, blocks, head. Forward is a loop over it, backward the same loop reversed; the only
// place that knows the order in which gradients become ready. A pipeline stage is a slice of this list.

#include <memory>
#include <vector>

#include "model/block.h"
#include "model/embedding.h"
#include "model/head.h"

namespace trireme {

/// Bytes of a Stage's memory, and of the scratch that its operators need.
struct StageBytes {
  size_t activations = 0, scratch = 0;
};
StageBytes stage_bytes(const Spec& spec, DType dtype, const ModelShape& shape, const Ops& ops, int threads);

class Stage {
 public:
  /// Allocates activations and scratch for at most shape.rows rows. Borrows ops and the arrays behind views.
  Stage(const Spec& spec, const ParameterViews& views, DType dtype, const ModelShape& shape, Ops& ops, int threads);

  /// How one micro-batch is run; see Pass.
  struct Step {
    uint64_t seed = 0, step = 0;
    bool dropout = false;
  };
  /// Head::loss() of the batch; nothing is kept.
  double loss(const Batch& batch);
  /// Forward and backward of loss x scale. write: overwrite for a step's first micro-batch, add for later ones. sink,
  /// if given, is told of every gradient range in ascending order as backward finishes it: pass it on the last
  /// micro-batch only.
  double loss_and_backward(const Batch& batch, const Step& step, float scale, Write write, GradientSink* sink);
  /// Generation: runs the batch's rows against the cache and gives the logits of each sequence's last row, [sequences,
  /// vocabulary_rows] f32 (f64).
  void decode(const Batch& batch, const KeyValueCache& cache, View logits);
  /// Without a cache: logits of every row, [rows, vocabulary_rows], or of every sequence, [sequences, classes], of the
  /// activation type.
  void logits(const Batch& batch, View logits);
  /// A block's output in the last loss_and_backward() or logits() of a training stage; index = layers gives the last
  /// one's. For tests and tools.
  ConstView block_output(int64_t index) const {
    return index < spec_.layers ? memory_.blocks[static_cast<size_t>(index)].x : memory_.output;
  }

  const Spec& spec() const { return spec_; }
  Context& context() { return context_; }

 private:
  void forward(const Pass& pass);
  View input_of(int64_t block) const;

  Spec spec_;
  ParameterViews views_;
  Ops& ops_;
  Arena activations_, scratch_;
  Context context_;
  ModelMemory memory_;
  bool recompute_;
  Embedding embedding_;
  std::vector<Block> blocks_;
  std::unique_ptr<Head> head_;
};

}  // namespace trireme
