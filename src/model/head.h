#pragma once
// Computes a loss from the last block's rows: a decoder (one logit per token id, in row chunks, so that all logits
// never exist at once) or a classifier of complete sequences.

#include <memory>

#include "model/linear.h"
#include "model/memory.h"

namespace trireme {

class Head {
 public:
  virtual ~Head() = default;

  // work is for the rows of x.

  /// pass.loss += sum over the counted targets of the cross-entropy in nats (regression: of the squared error). x:
  /// [rows, width].
  virtual void loss(const Pass& pass, ConstView x, const Workspace& work) const = 0;
  /// The same, with gradients of loss x scale: weights by pass.write, x into work.gradient (overwritten).
  virtual void loss_and_backward(const Pass& pass, ConstView x, const Workspace& work, float scale) const = 0;
  /// Decoder: logits of some rows, x [n, width] -> [n, vocabulary_rows], columns past the vocabulary undefined.
  /// Classifier: x [rows, width] of the whole batch -> [sequences, classes].
  virtual void logits(const Pass& pass, ConstView x, const Workspace& work, View logits) const = 0;
};

std::unique_ptr<Head> make_head(const Spec& spec, const ParameterViews& views);

}  // namespace trireme
