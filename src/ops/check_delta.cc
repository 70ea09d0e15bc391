// Checks of the operators of gated attention and of heads with a state, and what a backend without them says.

#include "ops/checker.h"
#include "ops/profile.h"

namespace trireme {
namespace {

[[noreturn]] void refuse(std::string_view backend, std::string_view op) {
  fail(ErrorKind::config,
       "{}: the {} backend does not have this operator yet: layers with gated attention or a state compute on CPUs "
       "only; "
       "use --run.device cpu",
       op, backend);
}

void check_offsets(const Checker& check, ConstView offsets, int64_t rows) {
  check.dims("offsets", offsets, 1);
  check.statistic("offsets", offsets, DType::i32);
  check.that(offsets.rows() >= 2 || rows == 0,
             fmt::format("offsets is {}, expected the number of sequences + 1 entries", describe(offsets)));
}

/// Returns the channels of a group.
int64_t check_convolution(const Checker& check, ConstView x, ConstView w, ConstView offsets, ConstView y) {
  check.dims("x", x, 3);
  check.dims("y", y, 3);
  check.dims("w", w, 3);
  const int64_t channels = y.shape()[2], groups = x.shape()[1];
  check.is("y", y, x.dtype(), {x.rows(), groups, channels});
  check.that(channels <= x.shape()[2],
             fmt::format("y is {}, expected at most the {} channels of x", describe(y), x.shape()[2]));
  check.is("w", w, x.dtype(), {groups * channels, 1, w.shape()[2]});
  check.that(w.shape()[2] >= 1 && w.shape()[2] <= kMostTaps,
             fmt::format("w is {}, expected 1 to {} taps", describe(w), kMostTaps));
  check_offsets(check, offsets, x.rows());
  return channels;
}

void check_delta(const Checker& check, ConstView mixed, ConstView projected, ConstView decay_log, ConstView decay_bias,
                 const DeltaShape& shape) {
  check.that(shape.key_heads > 0 && shape.group > 0 && shape.key_size > 0 && shape.value_size > 0,
             fmt::format("{} key heads with {} value heads each, of sizes {} and {}, expected at least 1 of each",
                         shape.key_heads, shape.group, shape.key_size, shape.value_size));
  check.dims("mixed", mixed, 3);
  const int64_t rows = mixed.rows();
  check.is("mixed", mixed, mixed.dtype(), {rows, shape.key_heads, shape.mixed_width()});
  check.is("projected", projected, mixed.dtype(), {rows, shape.key_heads, shape.width()});
  check.is("decay_log", decay_log, mixed.dtype(), {shape.heads()});
  check.is("decay_bias", decay_bias, mixed.dtype(), {shape.heads()});
  check_offsets(check, shape.offsets, rows);
}

Shape states_shape(const DeltaShape& shape, int64_t rows) {
  return {delta_states(rows), shape.heads(), shape.key_size, shape.value_size};
}

void check_gated_norm(const Checker& check, ConstView x, ConstView gates, int64_t column, ConstView w, float eps) {
  check.dims("x", x, 3);
  check.dims("gates", gates, 3);
  const int64_t heads = x.shape()[1], size = x.shape()[2], groups = gates.shape()[1];
  check.is("gates", gates, x.dtype(), {x.rows(), groups, gates.shape()[2]});
  check.that(groups > 0 && heads % groups == 0 && column >= 0 && column + heads / groups * size <= gates.shape()[2],
             fmt::format("gates is {}, expected those of {} heads of size {} from column {} on", describe(gates), heads,
                         size, column));
  check.is("w", w, x.dtype(), {size});
  check.that(eps > 0, fmt::format("epsilon is {}, expected a number above 0", eps));
}

void check_split(const Checker& check, ConstView x, ConstView qkv, ConstView gates) {
  check.dims("x", x, 4);
  const int64_t rows = x.rows(), kv_heads = x.shape()[1], group = (x.shape()[2] - 2) / 2, head_dim = x.shape()[3];
  check.that(
      group > 0 && x.shape()[2] == 2 * group + 2,
      fmt::format("x is {}, expected query heads with a gate each, a key and a value of each group", describe(x)));
  check.is("qkv", qkv, x.dtype(), {rows, kv_heads, group + 2, head_dim});
  check.is("gates", gates, x.dtype(), {rows, kv_heads * group, head_dim});
}

/// FLOPs of a call as products: rows x width by one column.
ProductSize products(const DeltaShape& shape, int64_t rows, int64_t state_products, int64_t chunk_products) {
  const int64_t of_state = state_products * shape.key_size * shape.value_size;
  const int64_t of_chunk = chunk_products * kDeltaChunk / 2 * (shape.key_size + shape.value_size) / 2;
  return {.rows = rows * shape.heads(), .in = of_state + of_chunk, .out = 1};
}

}  // namespace

void Ops::split_gates(Context& context, ConstView x, View qkv, View gates) {
  const Checker check("split_gates");
  check.activation("x", x, takes(x.dtype()), name());
  check_split(check, x, qkv, gates);
  const OpTimer timer(recorder_, "split_gates", {x, qkv, gates});
  do_split_gates(context, x, qkv, gates);
}

void Ops::join_gates(Context& context, ConstView qkv, ConstView gates, View x) {
  const Checker check("join_gates");
  check.activation("x", x, takes(x.dtype()), name());
  check_split(check, x, qkv, gates);
  const OpTimer timer(recorder_, "join_gates", {qkv, gates, x});
  do_join_gates(context, qkv, gates, x);
}

void Ops::sigmoid_gate(Context& context, ConstView x, ConstView gates, View y) {
  const Checker check("sigmoid_gate");
  check.activation("x", x, takes(x.dtype()), name());
  check.is("gates", gates, x.dtype(), x.shape());
  check.is("y", y, x.dtype(), x.shape());
  const OpTimer timer(recorder_, "sigmoid_gate", {x, gates, y});
  do_sigmoid_gate(context, x, gates, y);
}

void Ops::sigmoid_gate_backward(Context& context, ConstView dy, ConstView x, ConstView gates, View dx, View dgates) {
  const Checker check("sigmoid_gate_backward");
  check.activation("x", x, takes(x.dtype()), name());
  for (const auto& [what, v] :
       {std::pair{"dy", dy}, {"gates", gates}, {"dx", ConstView(dx)}, {"dgates", ConstView(dgates)}})
    check.is(what, v, x.dtype(), x.shape());
  const OpTimer timer(recorder_, "sigmoid_gate_backward", {dy, x, gates, dx, dgates});
  do_sigmoid_gate_backward(context, dy, x, gates, dx, dgates);
}

void Ops::short_convolution(Context& context, ConstView x, ConstView w, ConstView offsets, bool silu, View y) {
  const Checker check("short_convolution");
  check.activation("x", x, takes(x.dtype()), name());
  check_convolution(check, x, w, offsets, y);
  const OpTimer timer(recorder_, "short_convolution", {y, y});
  do_short_convolution(context, x, w, offsets, silu, y);
}

void Ops::short_convolution_backward(Context& context, ConstView dy, ConstView x, ConstView w, ConstView offsets,
                                     bool silu, View dx, View dw, Write write) {
  const Checker check("short_convolution_backward");
  check.activation("x", x, takes(x.dtype()), name());
  check_convolution(check, x, w, offsets, dy);
  check.is("dx", dx, x.dtype(), x.shape());
  check.is_or_empty("dw", dw, statistic_of(x.dtype()), w.shape());
  const OpTimer timer(recorder_, "short_convolution_backward", {dy, dy, dy});
  do_short_convolution_backward(context, dy, x, w, offsets, silu, dx, dw, write);
}

void Ops::short_convolution_cached(Context& context, ConstView x, ConstView w, ConstView offsets, bool silu,
                                   ConstView past, View window, View y) {
  const Checker check("short_convolution_cached");
  check.activation("x", x, takes(x.dtype()), name());
  const int64_t channels = check_convolution(check, x, w, offsets, y), sequences = offsets.rows() - 1;
  check.is("past", past, DType::i32, {sequences});
  check.is("window", window, x.dtype(), {sequences, w.shape()[2] - 1, x.shape()[1] * channels});
  const OpTimer timer(recorder_, "short_convolution_cached", {y, y});
  do_short_convolution_cached(context, x, w, offsets, silu, past, window, y);
}

void Ops::delta_rule(Context& context, ConstView mixed, ConstView projected, ConstView decay_log, ConstView decay_bias,
                     const DeltaShape& shape, View out, View states) {
  const Checker check("delta_rule");
  check.activation("mixed", mixed, takes(mixed.dtype()), name());
  check_delta(check, mixed, projected, decay_log, decay_bias, shape);
  check.is("out", out, mixed.dtype(), {mixed.rows(), shape.heads(), shape.value_size});
  check.is_or_empty("states", states, statistic_of(mixed.dtype()), states_shape(shape, mixed.rows()));
  const OpTimer timer(recorder_, "delta_rule", {mixed, out, states}, products(shape, mixed.rows(), 3, 4));
  do_delta_rule(context, mixed, projected, decay_log, decay_bias, shape, out, states);
}

void Ops::delta_rule_backward(Context& context, ConstView dout, ConstView mixed, ConstView projected,
                              ConstView decay_log, ConstView decay_bias, const DeltaShape& shape, ConstView states,
                              View dmixed, View dprojected, View ddecay_log, View ddecay_bias, Write write) {
  const Checker check("delta_rule_backward");
  check.activation("mixed", mixed, takes(mixed.dtype()), name());
  check_delta(check, mixed, projected, decay_log, decay_bias, shape);
  check.is("dout", dout, mixed.dtype(), {mixed.rows(), shape.heads(), shape.value_size});
  const DType statistic = statistic_of(mixed.dtype());
  check.is("states", states, statistic, states_shape(shape, mixed.rows()));
  check.is("dmixed", dmixed, mixed.dtype(), mixed.shape());
  check.is("dprojected", dprojected, mixed.dtype(), projected.shape());
  check.is_or_empty("ddecay_log", ddecay_log, statistic, {shape.heads()});
  check.is_or_empty("ddecay_bias", ddecay_bias, statistic, {shape.heads()});
  const OpTimer timer(recorder_, "delta_rule_backward", {dout, mixed, states, dmixed},
                      products(shape, mixed.rows(), 7, 11));
  do_delta_rule_backward(context, dout, mixed, projected, decay_log, decay_bias, shape, states, dmixed, dprojected,
                         ddecay_log, ddecay_bias, write);
}

void Ops::delta_rule_cached(Context& context, ConstView mixed, ConstView projected, ConstView decay_log,
                            ConstView decay_bias, const DeltaShape& shape, ConstView past, View state, View out) {
  const Checker check("delta_rule_cached");
  check.activation("mixed", mixed, takes(mixed.dtype()), name());
  check_delta(check, mixed, projected, decay_log, decay_bias, shape);
  const int64_t sequences = shape.offsets.rows() - 1;
  check.is("past", past, DType::i32, {sequences});
  check.is("state", state, statistic_of(mixed.dtype()), {sequences, shape.heads(), shape.key_size, shape.value_size});
  check.is("out", out, mixed.dtype(), {mixed.rows(), shape.heads(), shape.value_size});
  const OpTimer timer(recorder_, "delta_rule_cached", {mixed, state, state, out});
  do_delta_rule_cached(context, mixed, projected, decay_log, decay_bias, shape, past, state, out);
}

void Ops::gated_norm(Context& context, ConstView x, ConstView gates, int64_t column, ConstView w, float eps, View y) {
  const Checker check("gated_norm");
  check.activation("x", x, takes(x.dtype()), name());
  check_gated_norm(check, x, gates, column, w, eps);
  check.is("y", y, x.dtype(), x.shape());
  const OpTimer timer(recorder_, "gated_norm", {x, x, y});
  do_gated_norm(context, x, gates, column, w, eps, y);
}

void Ops::gated_norm_backward(Context& context, ConstView dy, ConstView x, ConstView gates, int64_t column, ConstView w,
                              float eps, View dx, View dgates, View dw, Write write) {
  const Checker check("gated_norm_backward");
  check.activation("x", x, takes(x.dtype()), name());
  check_gated_norm(check, x, gates, column, w, eps);
  check.is("dy", dy, x.dtype(), x.shape());
  check.is("dx", dx, x.dtype(), x.shape());
  check.is("dgates", dgates, x.dtype(), gates.shape());
  check.is_or_empty("dw", dw, statistic_of(x.dtype()), w.shape());
  const OpTimer timer(recorder_, "gated_norm_backward", {dy, x, x, dx, dx});
  do_gated_norm_backward(context, dy, x, gates, column, w, eps, dx, dgates, dw, write);
}

void Ops::do_split_gates(Context&, ConstView, View, View) { refuse(name(), "split_gates"); }
void Ops::do_join_gates(Context&, ConstView, ConstView, View) { refuse(name(), "join_gates"); }
void Ops::do_sigmoid_gate(Context&, ConstView, ConstView, View) { refuse(name(), "sigmoid_gate"); }
void Ops::do_sigmoid_gate_backward(Context&, ConstView, ConstView, ConstView, View, View) {
  refuse(name(), "sigmoid_gate_backward");
}
void Ops::do_short_convolution(Context&, ConstView, ConstView, ConstView, bool, View) {
  refuse(name(), "short_convolution");
}
void Ops::do_short_convolution_backward(Context&, ConstView, ConstView, ConstView, ConstView, bool, View, View, Write) {
  refuse(name(), "short_convolution_backward");
}
void Ops::do_short_convolution_cached(Context&, ConstView, ConstView, ConstView, bool, ConstView, View, View) {
  refuse(name(), "short_convolution_cached");
}
void Ops::do_delta_rule(Context&, ConstView, ConstView, ConstView, ConstView, const DeltaShape&, View, View) {
  refuse(name(), "delta_rule");
}
void Ops::do_delta_rule_backward(Context&, ConstView, ConstView, ConstView, ConstView, ConstView, const DeltaShape&,
                                 ConstView, View, View, View, View, Write) {
  refuse(name(), "delta_rule_backward");
}
void Ops::do_delta_rule_cached(Context&, ConstView, ConstView, ConstView, ConstView, const DeltaShape&, ConstView, View,
                               View) {
  refuse(name(), "delta_rule_cached");
}
void Ops::do_gated_norm(Context&, ConstView, ConstView, int64_t, ConstView, float, View) {
  refuse(name(), "gated_norm");
}
void Ops::do_gated_norm_backward(Context&, ConstView, ConstView, ConstView, int64_t, ConstView, float, View, View, View,
                                 Write) {
  refuse(name(), "gated_norm_backward");
}

}  // namespace trireme
