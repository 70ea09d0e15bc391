#include "model/linear.h"

#include <cassert>

#include "tensor/arena.h"

namespace trireme {

Linear::Linear(const ParameterViews& views, const std::string& name, bool has_bias)
    : weight_(views, name + ".weight"), adapter_(views, name) {
  if (has_bias) bias_ = LayerParameter(views, name + ".bias");
  const Parameter& weight = views.table->find(name + ".weight");
  cut_rows_ = weight.shape[0] < weight.global_shape[0];
  cut_columns_ = weight.shape[1] < weight.global_shape[1];
}

void Linear::forward_part(const Pass& pass, ConstView x, View y) const {
  const bool adds_bias = !cut_columns_ || pass.tensor->rank() == 0;  // once in the sum
  const ConstView bias = adds_bias ? bias_.value : ConstView();
  adapter_.forward(pass, x, weight_.value, adapter_.has_magnitudes() ? ConstView() : bias, y);
  if (adapter_.has_magnitudes()) adapter_.scale(pass, weight_.value, bias, y);
}

void Linear::forward(const Pass& pass, ConstView x, View y) const {
  if (!cut_columns_) return forward_part(pass, cut_rows_ ? pass.all_rows(x) : x, y);
  forward_part(pass, x, pass.contribution_to(y));
  pass.sum(y);
}

void Linear::forward(const Pass& pass, ConstView x, Activation f, View pre, View y) const {
  assert(!cut_columns_);
  const ConstView rows = cut_rows_ ? pass.all_rows(x) : x;
  if (adapter_.empty()) return pass.ops.linear_activation(pass.context, rows, weight_.value, bias_.value, f, pre, y);
  forward_part(pass, rows, pre);
  pass.ops.activation(pass.context, pre, f, y);
}

ConstView Linear::before_magnitudes(const Pass& pass, ConstView dy, ConstView x) const {
  return adapter_.has_magnitudes() ? adapter_.scale_backward(pass, weight_.value, dy, x) : dy;
}

void Linear::backward_weights(const Pass& pass, ConstView dy, ConstView dz, ConstView x, BiasGradient bias) const {
  if (weight_.trained()) pass.ops.linear_backward_weight(pass.context, dz, x, weight_.gradient, pass.write);
  if (bias == BiasGradient::missing && bias_.trained())
    pass.ops.bias_backward(pass.context, dy, bias_.gradient, pass.write);
}

/// dx may be x.
void Linear::backward_input(const Pass& pass, ConstView dy, ConstView x, View dx) const {
  const ArenaScope scope(*pass.context.scratch);
  const ConstView inner = adapter_.backward(pass, dy, x);
  adapter_.input_gradient(pass, dy, weight_.value, inner, dx);
}

/// Of a matrix that is cut by rows. Inputs of all rows are gathered while dx is computed.
void Linear::backward_summed(const Pass& pass, ConstView dy, ConstView x, View dx, BiasGradient bias) const {
  ConstView all_x = x;
  const bool gathers =
      pass.sequence_parallel() && (weight_.trained() || adapter_.trained() || adapter_.has_magnitudes());
  if (gathers) {
    const View all = pass.tensor->gathered(pass.batch.rows(), x.shape()[1]);
    pass.tensor->start_gather(pass.context, x, all);
    all_x = all;
  }
  const bool waits = gathers && adapter_.has_magnitudes();  // they need the inputs first
  if (waits) pass.tensor->finish();
  const ArenaScope scope(*pass.context.scratch);
  const ConstView dz = before_magnitudes(pass, dy, all_x);
  pass.ops.linear_backward_input(pass.context, dz, weight_.value, pass.contribution_to(dx));
  if (gathers && !waits) pass.tensor->finish();
  {
    const ArenaScope of_adapter(*pass.context.scratch);
    adapter_.add_input_gradient(pass, adapter_.backward(pass, dz, all_x), pass.contribution_to(dx));
  }
  pass.start_sum(dx);
  backward_weights(pass, dy, dz, all_x, bias);
  pass.tensor->finish();
}

void Linear::backward_part(const Pass& pass, ConstView dy, ConstView x, View dx) const {
  const ArenaScope scope(*pass.context.scratch);
  const ConstView dz = before_magnitudes(pass, dy, x);
  if (weight_.trained()) pass.ops.linear_backward_weight(pass.context, dz, x, weight_.gradient, pass.write);
  if (bias_.trained()) pass.ops.bias_backward(pass.context, pass.own(dy), bias_.gradient, pass.write);
  backward_input(pass, dz, x, dx);
}

void Linear::backward(const Pass& pass, ConstView dy, ConstView x, View dx) const {
  if (cut_columns_) return backward_part(pass, pass.all_rows(dy), x, dx);
  backward(pass, dy, x, dx, BiasGradient::missing);
}

void Linear::backward(const Pass& pass, ConstView dy, ConstView pre, Activation f, View dpre, ConstView x,
                      View dx) const {
  assert(!cut_columns_);
  if (!bias_.trained()) {
    pass.ops.activation_backward(pass.context, dy, pre, f, dpre);
  } else {
    pass.ops.activation_bias_backward(pass.context, dy, pre, f, dpre, bias_.gradient, pass.write);
  }
  backward(pass, dpre, x, dx, BiasGradient::written);
}

void Linear::backward(const Pass& pass, ConstView dy, ConstView x, View dx, BiasGradient bias) const {
  if (cut_rows_) return backward_summed(pass, dy, x, dx, bias);
  const ArenaScope scope(*pass.context.scratch);
  const ConstView dz = before_magnitudes(pass, dy, x);
  backward_weights(pass, dy, dz, x, bias);
  backward_input(pass, dz, x, dx);
}

Norm::Norm(const ParameterViews& views, const std::string& name, const Spec& spec)
    : weight_(views, name + ".weight"), kind_(spec.norm), offset_(spec.norm_offset), epsilon_(spec.norm_epsilon) {
  if (spec.biases.norm) bias_ = LayerParameter(views, name + ".bias");
}

void Norm::forward(const Pass& pass, ConstView x, View y, View mean, View rstd) const {
  if (kind_ == NormKind::rms) return pass.ops.rms_norm(pass.context, x, weight_.value, offset_, epsilon_, y, rstd);
  pass.ops.layer_norm(pass.context, x, weight_.value, bias_.value, epsilon_, y, mean, rstd);
}

void Norm::forward(const Pass& pass, ConstView x, ConstView residual, const Dropout& dropout, float factor, View sum,
                   View y, View mean, View rstd) const {
  const bool centered = kind_ == NormKind::layer;
  const RowNorm norm{
      .w = weight_.value, .b = bias_.value, .centered = centered, .offset = offset_, .epsilon = epsilon_};
  pass.ops.dropout_add_norm(pass.context, x, residual, dropout, factor, sum, norm, y, centered ? mean : View(), rstd);
}

void Norm::backward(const Pass& pass, ConstView dy, ConstView x, ConstView mean, ConstView rstd, View dx) const {
  if (kind_ == NormKind::rms)
    return pass.ops.rms_norm_backward(pass.context, dy, x, weight_.value, offset_, rstd, dx, weight_.gradient,
                                      pass.write);
  pass.ops.layer_norm_backward(pass.context, dy, x, weight_.value, mean, rstd, dx, weight_.gradient, bias_.gradient,
                               pass.write);
}

}  // namespace trireme
