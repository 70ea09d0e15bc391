#include "model/delta.h"

#include <fmt/format.h>

namespace trireme {

Delta::Delta(const Spec& spec, const ParameterViews& views, int64_t index)
    : spec_(spec), layout_(views.table->layout()) {
  const auto parameter = [&](const char* name) {
    return LayerParameter(views, fmt::format("block.{}.delta.{}", index, name));
  };
  convolution_ = parameter("convolution.weight");
  decay_log_ = parameter("decay_log");
  decay_bias_ = parameter("decay_bias");
  gain_ = parameter("norm.weight");
}

DeltaShape Delta::shape(const Pass& pass) const { return delta_shape(spec_, layout_, pass.batch.offsets); }

/// Of the output gates in what is projected.
int64_t Delta::gates_column() const { return delta_shape(spec_, layout_).mixed_width(); }

View Delta::gated(const Pass& pass, const Workspace& work) const {
  return work.gated.first_as({pass.batch.rows(), layout_.share(spec_.delta_value_width())});
}

void Delta::gate(const Pass& pass, const BlockSaved& saved, const Workspace& work) const {
  pass.ops.gated_norm(pass.context, saved.delta, saved.projected, gates_column(), gain_.value, spec_.norm_epsilon,
                      gated(pass, work).reshape(saved.delta.shape()));
}

void Delta::recompute(const Pass& pass, const BlockSaved& saved, const Workspace& work) const {
  pass.ops.short_convolution(pass.context, saved.projected, convolution_.value, pass.batch.offsets, true, work.mixed);
  pass.ops.delta_rule(pass.context, work.mixed, saved.projected, decay_log_.value, decay_bias_.value, shape(pass),
                      saved.delta, saved.states);
}

void Delta::forward(const Pass& pass, const BlockSaved& saved, const Workspace& work, ConstView past,
                    const LayerCache* cache) const {
  if (cache) {
    pass.ops.short_convolution_cached(pass.context, saved.projected, convolution_.value, pass.batch.offsets, true, past,
                                      cache->window, work.mixed);
    pass.ops.delta_rule_cached(pass.context, work.mixed, saved.projected, decay_log_.value, decay_bias_.value,
                               shape(pass), past, cache->state, saved.delta);
  } else {
    recompute(pass, saved, work);
  }
  gate(pass, saved, work);
}

/// work.delta_gradient becomes that of saved.delta.
void Delta::norm_backward(const Pass& pass, const BlockSaved& saved, const Workspace& work) const {
  const auto backward = [&](View dw, Write write) {
    pass.ops.gated_norm_backward(pass.context, work.delta_gradient, saved.delta, saved.projected, gates_column(),
                                 gain_.value, spec_.norm_epsilon, work.delta_gradient, work.projected_gradient, dw,
                                 write);
  };
  if (!pass.tensor || !gain_.trained()) return backward(gain_.gradient, pass.write);
  backward(work.delta_gain_gradient, Write::overwrite);
  pass.tensor->sum_statistics(pass.context, work.delta_gain_gradient);
  pass.write == Write::overwrite ? pass.ops.cast(pass.context, work.delta_gain_gradient, gain_.gradient)
                                 : pass.ops.add(pass.context, work.delta_gain_gradient, gain_.gradient);
}

void Delta::backward(const Pass& pass, const BlockSaved& saved, const Workspace& work) const {
  norm_backward(pass, saved, work);
  pass.ops.short_convolution(pass.context, saved.projected, convolution_.value, pass.batch.offsets, true, work.mixed);
  pass.ops.delta_rule_backward(pass.context, work.delta_gradient, work.mixed, saved.projected, decay_log_.value,
                               decay_bias_.value, shape(pass), saved.states, work.mixed_gradient,
                               work.projected_gradient, decay_log_.gradient, decay_bias_.gradient, pass.write);
  pass.ops.short_convolution_backward(pass.context, work.mixed_gradient, saved.projected, convolution_.value,
                                      pass.batch.offsets, true, work.projected_gradient, convolution_.gradient,
                                      pass.write);
}

}  // namespace trireme
