#pragma once
// A class (or, with one class, a number) per sequence, of its first row x: out(dropout(f(hidden(dropout(x))))). A batch
// may have more sequences than labels (or than rows of asked-for logits): the last ones are padding, run and never
// read.

#include "model/head.h"

namespace trireme {

class ClassifierHead final : public Head {
 public:
  ClassifierHead(const Spec& spec, const ParameterViews& views);
  void loss(const Pass& pass, ConstView x, const Workspace& work) const override;
  void loss_and_backward(const Pass& pass, ConstView x, const Workspace& work, float scale) const override;
  void logits(const Pass& pass, ConstView x, const Workspace& work, View logits) const override;

 private:
  /// The first rows, as the hidden linear takes them, are in head.first; its activation in head.hidden, dropped out in
  /// head.first_gradient. head is for the rows of logits.
  void forward(const Pass& pass, ConstView x, const HeadBuffers& head, View logits) const;
  /// y = each sequence's row of x, of whose rows a tensor rank may have its own only.
  void gather_first(const Pass& pass, ConstView x, View y) const;
  /// dx = 0 except in each sequence's row, which gets its row of dy.
  void scatter_first(const Pass& pass, ConstView dy, View dx) const;
  void loss_of(const Pass& pass, const HeadChunk& chunk) const;
  Dropout input_dropout(const Pass& pass) const;
  Dropout output_dropout(const Pass& pass) const;

  const Spec& spec_;
  Linear hidden_, out_;
};

}  // namespace trireme
