#pragma once
// Final norm, language-model head and cross-entropy, in row chunks: all logits never exist at once.

#include "model/linear.h"
#include "model/memory.h"

namespace trireme {

class Head {
 public:
  Head(const Spec& spec, const ParameterViews& views);

  /// Sum over counted rows of the cross-entropy, in nats. x: [rows, width].
  double loss(const Pass& pass, ConstView x, const Workspace& work) const;
  /// The same, with gradients of loss x scale: weights by pass.write, x into work.gradient (overwritten).
  double loss_and_backward(const Pass& pass, ConstView x, const Workspace& work, float scale) const;
  /// Logits of some rows: x [n, width] -> logits [n, vocabulary_rows], columns past the vocabulary undefined.
  void logits(const Pass& pass, ConstView x, const Workspace& work, View logits) const;

 private:
  double chunk_loss(const Pass& pass, ConstView norm, ConstView targets, const Workspace& work, View logits) const;
  void chunk_backward(const Pass& pass, ConstView norm, ConstView targets, const Workspace& work, View logits,
                      View dnorm, float scale, bool first_chunk) const;

  const Spec& spec_;
  Norm norm_;
  LayerParameter weight_;
};

}  // namespace trireme
