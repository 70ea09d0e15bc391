#include "model/linear_adapter.h"

#include <algorithm>

#include "model/memory.h"
#include "tensor/arena.h"

namespace trireme {
namespace {

/// Of dropout, behind those of a block.
uint32_t site_of(std::string_view linear) {
  constexpr uint32_t kFirst = 4;
  const auto found = std::ranges::find_if(kBlockLinears, [&](std::string_view end) { return linear.ends_with(end); });
  return kFirst + static_cast<uint32_t>(found - kBlockLinears);
}

}  // namespace

LinearAdapter::LinearAdapter(const ParameterViews& views, const std::string& linear) {
  const Spec& spec = views.table->spec();
  int64_t column = 0;
  for (const Adapter& adapter : adapters_of(spec, linear)) {
    parts_.push_back({LayerParameter(views, adapter.b()),
                      adapter.magnitude ? LayerParameter(views, adapter.magnitudes()) : LayerParameter(),
                      outputs_of(spec, adapter.part), column, adapter.rank, adapter.scale});
    has_magnitudes_ |= adapter.magnitude;
    column += adapter.rank;
  }
  if (parts_.empty()) return;
  const std::string a = linear + ".lora_A";
  const Parameter& parameter = views.table->find(a);
  a_ = LayerParameter(views, a);
  cut_inputs_ = !parameter.is_whole();
  rate_ = spec.adapter_dropout;
  layer_ = static_cast<uint32_t>(std::stoul(linear.substr(linear.find('.') + 1)));
  site_ = site_of(linear);
}

bool LinearAdapter::trained() const {
  return a_.trained() ||
         std::ranges::any_of(parts_, [](const Part& part) { return part.b.trained() || part.magnitudes.trained(); });
}

Dropout LinearAdapter::dropout(const Pass& pass) const { return pass.dropout_at(rate_, layer_, site_); }

ConstView LinearAdapter::dropped(const Pass& pass, ConstView x) const {
  const Dropout mask = dropout(pass);
  if (mask.rate == 0) return x;
  const View y = pass.context.scratch->take(x.dtype(), x.shape());
  pass.ops.dropout_add(pass.context, x, {}, mask, y);
  return y;
}

View LinearAdapter::placed(const Pass& pass, int64_t outputs) const {
  const View b = pass.context.scratch->take(a_.value.dtype(), {outputs, rank()});
  pass.ops.zero(pass.context, b);
  for (const Part& part : parts_)
    pass.ops.place_rows(pass.context, part.b.value, part.outputs, part.column, part.scale, b);
  return b;
}

void LinearAdapter::forward(const Pass& pass, ConstView x, ConstView weight, ConstView bias, View y) const {
  if (empty()) return pass.ops.linear(pass.context, x, weight, bias, y);
  Arena& scratch = *pass.context.scratch;
  const ArenaScope scope(scratch);
  const View inner = scratch.take(x.dtype(), {x.rows(), rank()});
  pass.ops.linear(pass.context, dropped(pass, x), a_.value, {}, inner);
  pass.ops.linear_low_rank(pass.context, x, weight, bias, inner, placed(pass, y.shape()[1]), y);
}

void LinearAdapter::backward_parts(const Pass& pass, ConstView dy, ConstView inner) const {
  Arena& scratch = *pass.context.scratch;
  const ArenaScope scope(scratch);
  const View db = scratch.take(stat_type(dy.dtype()), {dy.shape()[1], rank()});
  pass.ops.linear_backward_weight(pass.context, dy, inner, db, Write::overwrite);
  for (const Part& part : parts_) {
    if (part.b.trained())
      pass.ops.take_rows(pass.context, db, part.outputs, part.column, part.scale, part.b.gradient, pass.write);
  }
}

View LinearAdapter::backward(const Pass& pass, ConstView dy, ConstView x) const {
  if (empty()) return {};
  Arena& scratch = *pass.context.scratch;
  const View inner_gradient = scratch.take(dy.dtype(), {dy.rows(), rank()});
  const ArenaScope scope(scratch);
  const View inner = scratch.take(dy.dtype(), {dy.rows(), rank()});
  const ConstView inputs = dropped(pass, x);
  pass.ops.linear_backward_input(pass.context, dy, placed(pass, dy.shape()[1]), inner_gradient);
  if (std::ranges::any_of(parts_, [](const Part& part) { return part.b.trained(); })) {
    pass.ops.linear(pass.context, inputs, a_.value, {}, inner);
    if (pass.tensor && cut_inputs_) pass.tensor->sum(pass.context, inner);
    backward_parts(pass, dy, inner);
  }
  if (!a_.trained()) return inner_gradient;
  ConstView sum = inner_gradient;
  if (pass.tensor && !cut_inputs_) {
    pass.ops.cast(pass.context, inner_gradient, inner);
    pass.tensor->sum(pass.context, inner);
    sum = inner;
  }
  pass.ops.linear_backward_weight(pass.context, sum, inputs, a_.gradient, pass.write);
  return inner_gradient;
}

void LinearAdapter::input_gradient(const Pass& pass, ConstView dy, ConstView weight, ConstView inner, View dx) const {
  if (!empty() && dropout(pass).rate == 0)
    return pass.ops.linear_low_rank_backward_input(pass.context, dy, weight, inner, a_.value, dx);
  pass.ops.linear_backward_input(pass.context, dy, weight, dx);
  add_input_gradient(pass, inner, dx);
}

void LinearAdapter::add_input_gradient(const Pass& pass, ConstView inner, View dx) const {
  if (empty()) return;
  const ArenaScope scope(*pass.context.scratch);
  const View through = pass.context.scratch->take(dx.dtype(), dx.shape());
  pass.ops.linear_backward_input(pass.context, inner, a_.value, through);
  if (const Dropout mask = dropout(pass); mask.rate > 0)
    pass.ops.dropout_backward(pass.context, through, mask, through);
  pass.ops.dropout_add(pass.context, through, dx, {}, dx);
}

LinearAdapter::Factors LinearAdapter::factors(const Pass& pass, ConstView weight) const {
  Arena& scratch = *pass.context.scratch;
  const int64_t outputs = weight.shape()[0];
  const DType type = stat_type(weight.dtype());
  const Factors made{scratch.take(type, {outputs}), scratch.take(type, {outputs})};
  const ArenaScope scope(scratch);
  const View magnitudes = scratch.take(type, {outputs}), squares = scratch.take(type, {outputs});
  pass.ops.zero(pass.context, magnitudes);
  for (const Part& part : parts_) {
    if (part.magnitudes.value.empty()) continue;
    const int64_t count = part.magnitudes.value.count();
    const ArenaScope of_part(scratch);
    const View values = scratch.take(type, {count});
    pass.ops.cast(pass.context, part.magnitudes.value, values);
    pass.ops.place_rows(pass.context, values.reshape({count, 1}), part.outputs, 0, 1, magnitudes.reshape({outputs, 1}));
  }
  pass.ops.low_rank_squares(pass.context, weight, placed(pass, outputs), a_.value, squares);
  if (pass.tensor && cut_inputs_) pass.tensor->sum_statistics(pass.context, squares);
  pass.ops.magnitude_factors(pass.context, magnitudes, squares, made.factors, made.inverses);
  return made;
}

void LinearAdapter::scale(const Pass& pass, ConstView weight, ConstView bias, View y) const {
  const ArenaScope scope(*pass.context.scratch);
  pass.ops.scale_columns(pass.context, y, factors(pass, weight).factors, bias, y);
}

View LinearAdapter::scale_backward(const Pass& pass, ConstView weight, ConstView dy, ConstView x) const {
  Arena& scratch = *pass.context.scratch;
  const int64_t outputs = weight.shape()[0];
  const View dz = scratch.take(dy.dtype(), dy.shape());
  const ArenaScope scope(scratch);
  const Factors made = factors(pass, weight);
  const View products = scratch.take(made.factors.dtype(), {outputs});
  forward(pass, x, weight, {}, dz);
  pass.ops.scale_columns_backward(pass.context, dy, dz, made.factors, dz, products);
  if (std::ranges::none_of(parts_, [](const Part& part) { return part.magnitudes.trained(); })) return dz;
  if (pass.tensor && cut_inputs_) pass.tensor->sum_statistics(pass.context, products);
  const View row = products.reshape({1, outputs});
  pass.ops.scale_columns(pass.context, row, made.inverses, {}, row);
  for (const Part& part : parts_) {
    if (!part.magnitudes.trained()) continue;
    const View gradient = part.magnitudes.gradient;
    pass.ops.take_rows(pass.context, products.reshape({outputs, 1}), part.outputs, 0, 1,
                       gradient.reshape({gradient.count(), 1}), pass.write);
  }
  return dz;
}

size_t adapter_scratch_bytes(const Spec& spec, int tensor_size, DType dtype, int64_t rows, bool training) {
  const AdapterSizes sizes = adapter_sizes(spec, tensor_size);
  if (sizes.rank == 0) return 0;
  Arena measure;
  const auto take = [&](DType type, int64_t n, int64_t width) { (void)measure.take(type, {n, width}); };
  if (sizes.magnitudes) {
    if (training) take(dtype, rows, sizes.outputs);                        // scale_backward()'s result
    for (int i = 0; i < 6; ++i) take(stat_type(dtype), 1, sizes.outputs);  // of factors() and scale_backward()
  }
  take(dtype, rows, sizes.rank);
  take(dtype, rows, sizes.rank);
  take(dtype, sizes.outputs, sizes.rank);
  if (spec.adapter_dropout > 0 && training) take(dtype, rows, sizes.inputs);
  take(dtype, rows, std::max(sizes.inputs, sizes.outputs));
  if (training) take(stat_type(dtype), sizes.outputs, sizes.rank);
  return measure.peak();
}

}  // namespace trireme
