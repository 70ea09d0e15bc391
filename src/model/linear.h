#pragma once
// Linear and norm layers: an operator and its parameters. A linear that the table cuts by rows has its part of the
// outputs and gives its part of the inputs' gradient, which are summed over the tensor ranks; one that is cut by
// columns takes its part of the inputs, and its outputs are summed. Where tensor ranks share the rows between layers
// (mesh.sequence), the side that is not cut has this rank's rows, the cut one all of them; a layer that is not cut
// works on this rank's rows, so its gradients are complete once they are summed over the tensor ranks
// (model/tensor_group.h). A frozen parameter has no gradient, and backward computes none. A linear of a block may
// have low-rank adapters, whose outputs are added to its own; the sums may have magnitudes, and then the bias follows.

#include "model/linear_adapter.h"
#include "model/pass.h"

namespace trireme {

class Linear {
 public:
  Linear(const ParameterViews& views, const std::string& name, bool has_bias);
  /// y = x w^T + bias (+ adapters)
  void forward(const Pass& pass, ConstView x, View y) const;
  /// This rank's contribution to forward()'s sum over the tensor ranks, all rows; the complete y if it is not a sum.
  void forward_part(const Pass& pass, ConstView x, View y) const;
  /// pre = x w^T + bias (+ adapters); y = f(pre). Not for a matrix that is cut by columns.
  void forward(const Pass& pass, ConstView x, Activation f, View pre, View y) const;
  /// Weight gradients from dy and the forward's x, and dx = dy w, which travels meanwhile where it is a sum.
  void backward(const Pass& pass, ConstView dy, ConstView x, View dx) const;
  /// The same of forward() with an activation, from the gradient dy of its y; dpre: the gradient of pre, may be dy.
  void backward(const Pass& pass, ConstView dy, ConstView pre, Activation f, View dpre, ConstView x, View dx) const;
  /// The same of a matrix that is cut by columns, dy being of all rows.
  void backward_part(const Pass& pass, ConstView dy, ConstView x, View dx) const;

 private:
  enum class BiasGradient : uint8_t { written, missing };
  void backward(const Pass& pass, ConstView dy, ConstView x, View dx, BiasGradient) const;
  /// The gradient of the outputs before their magnitudes; dy itself where they have none.
  ConstView before_magnitudes(const Pass& pass, ConstView dy, ConstView x) const;
  /// dz: before_magnitudes().
  void backward_weights(const Pass& pass, ConstView dy, ConstView dz, ConstView x, BiasGradient) const;
  void backward_input(const Pass& pass, ConstView dy, ConstView x, View dx) const;
  void backward_summed(const Pass& pass, ConstView dy, ConstView x, View dx, BiasGradient) const;

  LayerParameter weight_, bias_;
  LinearAdapter adapter_;
  bool cut_rows_, cut_columns_;
};

class Norm {
 public:
  Norm(const ParameterViews& views, const std::string& name, const Spec& spec);
  /// y = norm(x); mean (not of rms norms) and rstd [rows] for backward.
  void forward(const Pass& pass, ConstView x, View y, View mean, View rstd) const;
  /// sum = residual + factor * dropout(x), y = norm(sum), as Ops::dropout_add_norm().
  void forward(const Pass& pass, ConstView x, ConstView residual, const Dropout& dropout, float factor, View sum,
               View y, View mean, View rstd) const;
  /// Weight gradients; dx += the gradient through the norm.
  void backward(const Pass& pass, ConstView dy, ConstView x, ConstView mean, ConstView rstd, View dx) const;

 private:
  LayerParameter weight_, bias_;
  NormKind kind_;
  float offset_, epsilon_;
};

}  // namespace trireme
