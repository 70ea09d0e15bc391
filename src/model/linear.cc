#include "model/linear.h"

namespace trireme {

LayerParameter::LayerParameter(const ParameterViews& views, const std::string& name) {
  const Parameter& parameter = views.table->find(name);
  value = view_of(views.weights, parameter);
  gradient = gradient_of(views.gradients, parameter);
}

Linear::Linear(const ParameterViews& views, const std::string& name, bool has_bias) : weight_(views, name + ".weight") {
  if (has_bias) bias_ = LayerParameter(views, name + ".bias");
}

void Linear::forward(const Pass& pass, ConstView x, View y) const {
  pass.ops.linear(pass.context, x, weight_.value, bias_.value, y);
}

void Linear::forward(const Pass& pass, ConstView x, Activation f, View pre, View y) const {
  pass.ops.linear_activation(pass.context, x, weight_.value, bias_.value, f, pre, y);
}

void Linear::backward(const Pass& pass, ConstView dy, ConstView x, View dx) const {
  pass.ops.linear_backward_weight(pass.context, dy, x, weight_.gradient, pass.write);
  if (!bias_.value.empty()) pass.ops.bias_backward(pass.context, dy, bias_.gradient, pass.write);
  pass.ops.linear_backward_input(pass.context, dy, weight_.value, dx);
}

Norm::Norm(const ParameterViews& views, const std::string& name, bool has_bias, float epsilon)
    : weight_(views, name + ".weight"), epsilon_(epsilon) {
  if (has_bias) bias_ = LayerParameter(views, name + ".bias");
}

void Norm::forward(const Pass& pass, ConstView x, View y, View mean, View rstd) const {
  pass.ops.layer_norm(pass.context, x, weight_.value, bias_.value, epsilon_, y, mean, rstd);
}

void Norm::backward(const Pass& pass, ConstView dy, ConstView x, ConstView mean, ConstView rstd, View dx) const {
  pass.ops.layer_norm_backward(pass.context, dy, x, weight_.value, mean, rstd, dx, weight_.gradient, bias_.gradient,
                               pass.write);
}

}  // namespace trireme
