#include "base/rng.h"
#include "ops/checker.h"
#include "ops/profile.h"

namespace trireme {
uint64_t dropout_key(uint64_t seed, uint64_t step, uint32_t layer, uint32_t site) {
  return mix_key(seed, step, layer, site);
}

// ---- linear

namespace {

void check_classes(const Checker& check, DType statistic, ConstView logits, ConstView targets, int64_t first_class,
                   int64_t classes, ConstView max, ConstView sum) {
  const int64_t rows = logits.shape()[0], columns = logits.shape()[1];
  check.is("targets", targets, DType::i32, {rows});
  check.that(
      first_class >= 0 && classes >= 0 && classes <= columns,
      fmt::format("classes {} to {} do not match logits {}", first_class, first_class + classes, describe(logits)));
  check.is("max", max, statistic, {rows});
  check.is("sum", sum, statistic, {rows});
}

void check_smoothing(const Checker& check, double smoothing, int64_t first_class) {
  check.that(smoothing >= 0 && smoothing <= 1, fmt::format("smoothing is {}, expected 0 to 1", smoothing));
  check.that(smoothing == 0 || first_class == 0,
             fmt::format("smoothing needs rows of all classes, but the first class is {}", first_class));
}

/// y: with the name of the argument.
ProductSize check_linear(const Checker& check, bool takes_type, std::string_view backend, ConstView x, ConstView w,
                         ConstView bias, std::string_view y_name, ConstView y) {
  check.dims("x", x, 2);
  check.activation("x", x, takes_type, backend);
  check.dims("w", w, 2);
  const int64_t out = w.shape()[0];
  check.is("w", w, x.dtype(), {out, x.shape()[1]});
  check.is_or_empty("bias", bias, x.dtype(), {out});
  check.is(y_name, y, x.dtype(), {x.rows(), out});
  return {x.rows(), x.shape()[1], out};
}

}  // namespace

void Ops::linear(Context& context, ConstView x, ConstView w, ConstView bias, View y) {
  const ProductSize size = check_linear(Checker("linear"), takes(x.dtype()), name(), x, w, bias, "y", y);
  const OpTimer timer(recorder_, "linear", {x, w, bias, y}, size);
  do_linear(context, x, w, bias, y);
}

void Ops::linear_softmax_stats(Context& context, ConstView x, ConstView w, ConstView bias, ConstView targets,
                               int64_t first_class, int64_t classes, View logits, View max, View sum, View target) {
  const Checker check("linear_softmax_stats");
  const ProductSize size = check_linear(check, takes(x.dtype()), name(), x, w, bias, "logits", logits);
  const DType statistic = statistic_of(x.dtype());
  check_classes(check, statistic, logits, targets, first_class, classes, max, sum);
  check.is("target", target, statistic, {x.rows()});
  const OpTimer timer(recorder_, "linear_softmax_stats", {x, w, bias, logits}, size);
  do_linear_softmax_stats(context, x, w, bias, targets, first_class, classes, logits, max, sum, target);
}

void Ops::do_linear_softmax_stats(Context& context, ConstView x, ConstView w, ConstView bias, ConstView targets,
                                  int64_t first_class, int64_t classes, View logits, View max, View sum, View target) {
  do_linear(context, x, w, bias, logits);
  do_softmax_stats(context, logits, targets, first_class, classes, max, sum, target);
}

void Ops::linear_activation(Context& context, ConstView x, ConstView w, ConstView bias, Activation f, View pre,
                            View y) {
  const Checker check("linear_activation");
  const ProductSize size = check_linear(check, takes(x.dtype()), name(), x, w, bias, "pre", pre);
  check.is("y", y, x.dtype(), {x.rows(), w.shape()[0]});
  const OpTimer timer(recorder_, "linear_activation", {x, w, bias, pre, y}, size);
  do_linear_activation(context, x, w, bias, f, pre, y);
}

void Ops::linear_backward_input(Context& context, ConstView dy, ConstView w, View dx) {
  const Checker check("linear_backward_input");
  check.dims("dy", dy, 2);
  check.activation("dy", dy, takes(dy.dtype()), name());
  check.dims("w", w, 2);
  check.is("w", w, dy.dtype(), {dy.shape()[1], w.shape()[1]});
  check.is("dx", dx, dy.dtype(), {dy.rows(), w.shape()[1]});
  const OpTimer timer(recorder_, "linear_backward_input", {dy, w, dx},
                      ProductSize{dy.rows(), w.shape()[1], w.shape()[0]});
  do_linear_backward_input(context, dy, w, dx);
}

void Ops::linear_backward_weight(Context& context, ConstView dy, ConstView x, View dw, Write write) {
  const Checker check("linear_backward_weight");
  check.dims("dy", dy, 2);
  check.activation("dy", dy, takes(dy.dtype()), name());
  check.dims("x", x, 2);
  check.is("x", x, dy.dtype(), {dy.rows(), x.shape()[1]});
  check.is("dw", dw, statistic_of(dy.dtype()), {dy.shape()[1], x.shape()[1]});
  const OpTimer timer(recorder_, "linear_backward_weight", {dy, x, dw},
                      ProductSize{dy.rows(), x.shape()[1], dy.shape()[1]});
  do_linear_backward_weight(context, dy, x, dw, write);
}

void Ops::bias_backward(Context& context, ConstView dy, View db, Write write) {
  const Checker check("bias_backward");
  check.dims("dy", dy, 2);
  check.activation("dy", dy, takes(dy.dtype()), name());
  check.is("db", db, statistic_of(dy.dtype()), {dy.shape()[1]});
  const OpTimer timer(recorder_, "bias_backward", {dy, db});
  do_bias_backward(context, dy, db, write);
}

// ---- elementwise

void Ops::activation(Context& context, ConstView x, Activation f, View y) {
  const Checker check("activation");
  check.activation("x", x, takes(x.dtype()), name());
  check.is("y", y, x.dtype(), x.shape());
  const OpTimer timer(recorder_, "activation", {x, y});
  do_activation(context, x, f, y);
}

void Ops::activation_backward(Context& context, ConstView dy, ConstView x, Activation f, View dx) {
  const Checker check("activation_backward");
  check.activation("x", x, takes(x.dtype()), name());
  check.is("dy", dy, x.dtype(), x.shape());
  check.is("dx", dx, x.dtype(), x.shape());
  const OpTimer timer(recorder_, "activation_backward", {dy, x, dx});
  do_activation_backward(context, dy, x, f, dx);
}

namespace {

void check_gated(const Checker& check, ConstView x, bool taken, std::string_view backend, std::string_view y_name,
                 ConstView y) {
  check.dims("x", x, 2);
  check.activation("x", x, taken, backend);
  check.that(x.shape()[1] % 2 == 0, fmt::format("x is {}, expected an even width", describe(x)));
  check.is(y_name, y, x.dtype(), {x.rows(), x.shape()[1] / 2});
}

}  // namespace

void Ops::gated_activation(Context& context, ConstView x, Activation f, View y) {
  check_gated(Checker("gated_activation"), x, takes(x.dtype()), name(), "y", y);
  const OpTimer timer(recorder_, "gated_activation", {x, y});
  do_gated_activation(context, x, f, y);
}

void Ops::gated_activation_backward(Context& context, ConstView dy, ConstView x, Activation f, View dx) {
  const Checker check("gated_activation_backward");
  check_gated(check, x, takes(x.dtype()), name(), "dy", dy);
  check.is("dx", dx, x.dtype(), x.shape());
  const OpTimer timer(recorder_, "gated_activation_backward", {dy, x, dx});
  do_gated_activation_backward(context, dy, x, f, dx);
}

void Ops::dropout_add(Context& context, ConstView x, ConstView residual, const Dropout& dropout, View y, float factor) {
  const Checker check("dropout_add");
  check.dims("x", x, 2);
  check.activation("x", x, takes(x.dtype()), name());
  check.is_or_empty("residual", residual, x.dtype(), x.shape());
  check.dropout(dropout, x.rows());
  check.factor(factor);
  check.is("y", y, x.dtype(), x.shape());
  const OpTimer timer(recorder_, "dropout_add", {x, residual, y});
  do_dropout_add(context, x, residual, dropout, y, factor);
}

void Ops::activation_bias_backward(Context& context, ConstView dy, ConstView x, Activation f, View dx, View db,
                                   Write write) {
  const Checker check("activation_bias_backward");
  check.dims("x", x, 2);
  check.activation("x", x, takes(x.dtype()), name());
  check.is("dy", dy, x.dtype(), x.shape());
  check.is("dx", dx, x.dtype(), x.shape());
  check.is("db", db, statistic_of(x.dtype()), {x.shape()[1]});
  const OpTimer timer(recorder_, "activation_bias_backward", {dy, x, dx, db});
  do_activation_bias_backward(context, dy, x, f, dx, db, write);
}

void Ops::do_activation_bias_backward(Context& context, ConstView dy, ConstView x, Activation f, View dx, View db,
                                      Write write) {
  do_activation_backward(context, dy, x, f, dx);
  do_bias_backward(context, dx, db, write);
}

void Ops::dropout_backward(Context& context, ConstView dy, const Dropout& dropout, View dx, float factor) {
  const Checker check("dropout_backward");
  check.dims("dy", dy, 2);
  check.activation("dy", dy, takes(dy.dtype()), name());
  check.dropout(dropout, dy.rows());
  check.factor(factor);
  check.is("dx", dx, dy.dtype(), dy.shape());
  const OpTimer timer(recorder_, "dropout_backward", {dy, dx});
  do_dropout_backward(context, dy, dropout, dx, factor);
}

// ---- embedding

void Ops::embedding(Context& context, ConstView tokens, ConstView positions, ConstView tokens_table,
                    ConstView positions_table, View y) {
  const Checker check("embedding");
  check.dims("y", y, 2);
  check.activation("y", y, takes(y.dtype()), name());
  const int64_t rows = y.shape()[0], width = y.shape()[1];
  check.is("tokens", tokens, DType::i32, {rows});
  check.dims("tokens_table", tokens_table, 2);
  check.is("tokens_table", tokens_table, y.dtype(), {tokens_table.shape()[0], width});
  check.that(positions.empty() == positions_table.empty(),
             "positions and their table must both be given; one is empty");
  if (!positions.empty()) {
    check.is("positions", positions, DType::i32, {rows});
    check.dims("positions_table", positions_table, 2);
    check.is("positions_table", positions_table, y.dtype(), {positions_table.shape()[0], width});
  }
  const OpTimer timer(recorder_, "embedding", {y, y});
  do_embedding(context, tokens, positions, tokens_table, positions_table, y);
}

void Ops::embedding_part(Context& context, ConstView tokens, ConstView table, TableRows part, View y) {
  const Checker check("embedding_part");
  check.dims("y", y, 2);
  check.activation("y", y, takes(y.dtype()), name());
  check.is("tokens", tokens, DType::i32, {y.shape()[0]});
  check.dims("table", table, 2);
  check.is("table", table, y.dtype(), {table.shape()[0], y.shape()[1]});
  check.part_of_table(table, part);
  const OpTimer timer(recorder_, "embedding_part", {y, y});
  do_embedding_part(context, tokens, table, part, y);
}

void Ops::embedding_backward(Context& context, ConstView ids, ConstView dy, View dtable, Write write, TableRows part) {
  const Checker check("embedding_backward");
  check.dims("dy", dy, 2);
  check.activation("dy", dy, takes(dy.dtype()), name());
  check.is("ids", ids, DType::i32, {dy.rows()});
  check.dims("dtable", dtable, 2);
  check.is("dtable", dtable, statistic_of(dy.dtype()), {dtable.shape()[0], dy.shape()[1]});
  if (part.of == 0) part = {0, dtable.shape()[0]};
  check.part_of_table(dtable, part);
  const OpTimer timer(recorder_, "embedding_backward", {ids, dy, dtable});
  do_embedding_backward(context, ids, dy, dtable, write, part);
}

void Ops::embedding_add(Context& context, ConstView ids, ConstView table, View y) {
  const Checker check("embedding_add");
  check.dims("y", y, 2);
  check.activation("y", y, takes(y.dtype()), name());
  check.is("ids", ids, DType::i32, {y.rows()});
  check.dims("table", table, 2);
  check.is("table", table, y.dtype(), {table.shape()[0], y.shape()[1]});
  const OpTimer timer(recorder_, "embedding_add", {y, y});
  do_embedding_add(context, ids, table, y);
}

void Ops::scatter_rows(Context& context, ConstView y, ConstView rows, View x) {
  const Checker check("scatter_rows");
  check.dims("y", y, 2);
  check.activation("y", y, takes(y.dtype()), name());
  check.is("rows", rows, DType::i32, {y.rows()});
  check.dims("x", x, 2);
  check.is("x", x, y.dtype(), {x.rows(), y.shape()[1]});
  const OpTimer timer(recorder_, "scatter_rows", {y, x});
  do_scatter_rows(context, y, rows, x);
}

// ---- rotary positions

void Ops::rotary_table(Context& context, std::span<const float> frequencies, double factor, View table) {
  const Checker check("rotary_table");
  check.dims("table", table, 2);
  check.statistic("table", table, takes(DType::f64) ? DType::f64 : DType::f32);
  check.that(table.shape()[1] == 2 * static_cast<int64_t>(frequencies.size()),
             fmt::format("table is {}, expected a width of twice {} frequencies", describe(table), frequencies.size()));
  for (const float frequency : frequencies)
    check.that(std::isfinite(frequency), fmt::format("a frequency is {}, expected a finite number", frequency));
  check.that(factor > 0 && std::isfinite(factor),
             fmt::format("factor is {}, expected a finite number above 0", factor));
  do_rotary_table(context, frequencies, factor, table);
}

namespace {

void check_rotary(const Checker& check, ConstView qkv, bool taken, std::string_view backend, ConstView positions,
                  ConstView table) {
  check.dims("qkv", qkv, 4);
  check.activation("qkv", qkv, taken, backend);
  check.that(qkv.shape()[2] >= 3, fmt::format("qkv is {}, expected at least 3 vectors of each group: a query head, the "
                                              "key and the value",
                                              describe(qkv)));
  check.is("positions", positions, DType::i32, {qkv.rows()});
  check.dims("table", table, 2);
  check.statistic("table", table, statistic_of(qkv.dtype()));
  const int64_t dims = table.shape()[1];
  check.that(dims % 2 == 0 && dims <= qkv.shape()[3],
             fmt::format("table is {}, expected an even width of at most {}", describe(table), qkv.shape()[3]));
}

}  // namespace

void Ops::rotary(Context& context, View qkv, ConstView positions, ConstView table) {
  check_rotary(Checker("rotary"), qkv, takes(qkv.dtype()), name(), positions, table);
  const OpTimer timer(recorder_, "rotary", {qkv});
  do_rotary(context, qkv, positions, table, false);
}

void Ops::rotary_backward(Context& context, View dqkv, ConstView positions, ConstView table) {
  check_rotary(Checker("rotary_backward"), dqkv, takes(dqkv.dtype()), name(), positions, table);
  const OpTimer timer(recorder_, "rotary_backward", {dqkv});
  do_rotary(context, dqkv, positions, table, true);
}

// ---- attention

void Ops::attention(Context& context, ConstView qkv, const AttentionShape& shape, const Dropout& dropout, View out,
                    View lse) {
  const Checker check("attention");
  check.dims("qkv", qkv, 4);
  check.activation("qkv", qkv, takes(qkv.dtype()), name());
  const int64_t rows = qkv.shape()[0];
  check.attention_shape(shape, rows);
  check.qkv("qkv", qkv, shape, rows);
  check.dropout(dropout, rows);
  check.is("out", out, qkv.dtype(), {rows, shape.heads(), shape.head_dim});
  check.is("lse", lse, statistic_of(qkv.dtype()), {shape.heads(), rows});
  const OpTimer timer(recorder_, "attention", {qkv, out, lse}, shape, 2);
  do_attention(context, qkv, shape, dropout, out, lse);
}

void Ops::attention_backward(Context& context, ConstView dout, ConstView qkv, ConstView out, ConstView lse,
                             const AttentionShape& shape, const Dropout& dropout, View dqkv) {
  const Checker check("attention_backward");
  check.dims("qkv", qkv, 4);
  check.activation("qkv", qkv, takes(qkv.dtype()), name());
  const int64_t rows = qkv.shape()[0];
  check.attention_shape(shape, rows);
  check.qkv("qkv", qkv, shape, rows);
  check.dropout(dropout, rows);
  check.is("dout", dout, qkv.dtype(), {rows, shape.heads(), shape.head_dim});
  check.is("out", out, qkv.dtype(), {rows, shape.heads(), shape.head_dim});
  check.is("lse", lse, statistic_of(qkv.dtype()), {shape.heads(), rows});
  check.is("dqkv", dqkv, qkv.dtype(), qkv.shape());
  const OpTimer timer(recorder_, "attention_backward", {dout, qkv, out, lse, dqkv}, shape, 5);
  do_attention_backward(context, dout, qkv, out, lse, shape, dropout, dqkv);
}

void Ops::attention_cached(Context& context, ConstView qkv, const AttentionShape& shape, ConstView past, View cache,
                           View out) {
  const Checker check("attention_cached");
  check.dims("qkv", qkv, 4);
  check.activation("qkv", qkv, takes(qkv.dtype()), name());
  const int64_t rows = qkv.shape()[0];
  check.attention_shape(shape, rows);
  check.that(shape.causal, "shape is not causal, but generation needs causal attention");
  const int64_t sequences = shape.offsets.rows() - 1;
  check.qkv("qkv", qkv, shape, rows);
  check.is("past", past, DType::i32, {sequences});
  check.dims("cache", cache, 4);
  check.is("cache", cache, qkv.dtype(), {sequences, 2 * shape.kv_heads, cache.shape()[2], shape.head_dim});
  check.is("out", out, qkv.dtype(), {rows, shape.heads(), shape.head_dim});
  const OpTimer timer(recorder_, "attention_cached", {qkv, cache, out});
  do_attention_cached(context, qkv, shape, past, cache, out);
}

// ---- loss

void Ops::softmax_stats(Context& context, ConstView logits, ConstView targets, int64_t first_class, int64_t classes,
                        View max, View sum, View target) {
  const Checker check("softmax_stats");
  check.dims("logits", logits, 2);
  const DType statistic = takes(DType::f64) ? DType::f64 : DType::f32;
  check.activation("logits", logits, takes(logits.dtype()) || logits.dtype() == statistic, name());
  check_classes(check, statistic, logits, targets, first_class, classes, max, sum);
  check.is("target", target, statistic, {logits.rows()});
  const OpTimer timer(recorder_, "softmax_stats", {logits});
  do_softmax_stats(context, logits, targets, first_class, classes, max, sum, target);
}

void Ops::softmax_combine(Context& context, ConstView parts, View max, View sum, View target) {
  const Checker check("softmax_combine");
  const DType statistic = takes(DType::f64) ? DType::f64 : DType::f32;
  check.dims("parts", parts, 3);
  const int64_t rows = parts.shape()[2];
  check.is("parts", parts, statistic, {parts.shape()[0], 3, rows});
  check.that(parts.shape()[0] > 0, "parts are empty");
  check.is("max", max, statistic, {rows});
  check.is("sum", sum, statistic, {rows});
  check.is("target", target, statistic, {rows});
  const OpTimer timer(recorder_, "softmax_combine", {parts, max, sum, target});
  do_softmax_combine(context, parts, max, sum, target);
}

void Ops::smooth_target(Context& context, ConstView logits, int64_t classes, double smoothing, View target) {
  const Checker check("smooth_target");
  check.dims("logits", logits, 2);
  check.activation("logits", logits, takes(logits.dtype()), name());
  check_smoothing(check, smoothing, 0);
  check.that(classes > 0 && classes <= logits.shape()[1],
             fmt::format("{} classes do not match logits {}", classes, describe(logits)));
  check.is("target", target, statistic_of(logits.dtype()), {logits.rows()});
  const OpTimer timer(recorder_, "smooth_target", {logits, target, target});
  do_smooth_target(context, logits, classes, smoothing, target);
}

void Ops::cross_entropy(Context& context, ConstView max, ConstView sum, ConstView target, ConstView targets,
                        View total) {
  const Checker check("cross_entropy");
  check.dims("targets", targets, 1);
  const int64_t rows = targets.shape()[0];
  const DType statistic = takes(DType::f64) ? DType::f64 : DType::f32;
  check.is("targets", targets, DType::i32, {rows});
  check.is("max", max, statistic, {rows});
  check.is("sum", sum, statistic, {rows});
  check.is("target", target, statistic, {rows});
  check.is("total", total, DType::f64, {1});
  const OpTimer timer(recorder_, "cross_entropy", {max, sum, target, targets});
  do_cross_entropy(context, max, sum, target, targets, total);
}

void Ops::cross_entropy_backward(Context& context, View logits, ConstView targets, int64_t first_class, int64_t classes,
                                 ConstView max, ConstView sum, float scale, double smoothing, float cap) {
  const Checker check("cross_entropy_backward");
  check.dims("logits", logits, 2);
  check.activation("logits", logits, takes(logits.dtype()), name());
  check_classes(check, statistic_of(logits.dtype()), logits, targets, first_class, classes, max, sum);
  check_smoothing(check, smoothing, first_class);
  check.that(cap >= 0 && std::isfinite(cap), fmt::format("cap is {}, expected a finite number, 0 for none", cap));
  const OpTimer timer(recorder_, "cross_entropy_backward", {logits, logits});
  do_cross_entropy_backward(context, logits, targets, first_class, classes, max, sum, scale, smoothing, cap);
}

void Ops::soft_cap(Context& context, View x, float cap) {
  const Checker check("soft_cap");
  check.activation("x", x, takes(x.dtype()), name());
  check.that(cap > 0 && std::isfinite(cap), fmt::format("cap is {}, expected a finite number above 0", cap));
  const OpTimer timer(recorder_, "soft_cap", {x, x});
  do_soft_cap(context, x, cap);
}

void Ops::squared_error(Context& context, ConstView z, ConstView targets, View total) {
  const Checker check("squared_error");
  check.dims("z", z, 2);
  check.activation("z", z, takes(z.dtype()), name());
  check.is("z", z, z.dtype(), {z.rows(), 1});
  check.is("targets", targets, statistic_of(z.dtype()), {z.rows()});
  check.is("total", total, DType::f64, {1});
  const OpTimer timer(recorder_, "squared_error", {z, targets});
  do_squared_error(context, z, targets, total);
}

void Ops::squared_error_backward(Context& context, View z, ConstView targets, float scale) {
  const Checker check("squared_error_backward");
  check.dims("z", z, 2);
  check.activation("z", z, takes(z.dtype()), name());
  check.is("z", z, z.dtype(), {z.rows(), 1});
  check.is("targets", targets, statistic_of(z.dtype()), {z.rows()});
  const OpTimer timer(recorder_, "squared_error_backward", {z, targets});
  do_squared_error_backward(context, z, targets, scale);
}

}  // namespace trireme
