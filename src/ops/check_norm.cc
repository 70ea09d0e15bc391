#include "ops/checker.h"
#include "ops/profile.h"

namespace trireme {
namespace {

void check_gain(const Checker& check, float offset, float eps) {
  check.that(eps > 0, fmt::format("eps is {}, expected a positive number", eps));
  check.that(offset == 0 || offset == 1, fmt::format("offset is {}, expected 0 or 1", offset));
}

void check_query_key(const Checker& check, ConstView qkv, bool taken, std::string_view backend,
                     const QueryKeyNorm& norm) {
  check.dims("qkv", qkv, 4);
  check.activation("qkv", qkv, taken, backend);
  const int64_t kv_heads = qkv.shape()[1], group = qkv.shape()[2] - 2, head_dim = qkv.shape()[3];
  check.that(group >= 1, fmt::format("qkv is {}, expected at least 3 vectors per key head", describe(qkv)));
  check.is("q", norm.q, qkv.dtype(), {norm.whole ? kv_heads * group * head_dim : head_dim});
  check.is("k", norm.k, qkv.dtype(), {norm.whole ? kv_heads * head_dim : head_dim});
  check.that(norm.q_count >= norm.q.count() && norm.k_count >= norm.k.count(),
             fmt::format("means of {} and {} values, expected at least {} and {}", norm.q_count, norm.k_count,
                         norm.q.count(), norm.k.count()));
  check_gain(check, norm.offset, norm.epsilon);
}

/// Of squares and products.
Shape statistics_shape(ConstView qkv, const QueryKeyNorm& norm) {
  return {qkv.rows(), norm.whole ? 2 : qkv.shape()[1] * (qkv.shape()[2] - 1)};
}

}  // namespace

void Ops::layer_norm(Context& context, ConstView x, ConstView w, ConstView b, float eps, View y, View mean, View rstd) {
  const Checker check("layer_norm");
  check.dims("x", x, 2);
  check.activation("x", x, takes(x.dtype()), name());
  const DType statistic = statistic_of(x.dtype());
  const int64_t rows = x.shape()[0], width = x.shape()[1];
  check.is("w", w, x.dtype(), {width});
  check.is_or_empty("b", b, x.dtype(), {width});
  check.that(eps > 0, fmt::format("eps is {}, expected a positive number", eps));
  check.is("y", y, x.dtype(), x.shape());
  check.is("mean", mean, statistic, {rows});
  check.is("rstd", rstd, statistic, {rows});
  const OpTimer timer(recorder_, "layer_norm", {x, w, b, y, mean, rstd});
  do_layer_norm(context, x, w, b, eps, y, mean, rstd);
}

void Ops::layer_norm_backward(Context& context, ConstView dy, ConstView x, ConstView w, ConstView mean, ConstView rstd,
                              View dx, View dw, View db, Write write) {
  const Checker check("layer_norm_backward");
  check.dims("x", x, 2);
  check.activation("x", x, takes(x.dtype()), name());
  const DType statistic = statistic_of(x.dtype());
  const int64_t rows = x.shape()[0], width = x.shape()[1];
  check.is("dy", dy, x.dtype(), x.shape());
  check.is("w", w, x.dtype(), {width});
  check.is("mean", mean, statistic, {rows});
  check.is("rstd", rstd, statistic, {rows});
  check.is("dx", dx, x.dtype(), x.shape());
  check.is_or_empty("dw", dw, statistic, {width});
  check.is_or_empty("db", db, statistic, {width});
  const OpTimer timer(recorder_, "layer_norm_backward", {dy, x, w, mean, rstd, dx, dw, db});
  do_layer_norm_backward(context, dy, x, w, mean, rstd, dx, dw, db, write);
}

void Ops::rms_norm(Context& context, ConstView x, ConstView w, float offset, float eps, View y, View rstd) {
  const Checker check("rms_norm");
  check.dims("x", x, 2);
  check.activation("x", x, takes(x.dtype()), name());
  check.is("w", w, x.dtype(), {x.shape()[1]});
  check_gain(check, offset, eps);
  check.is("y", y, x.dtype(), x.shape());
  check.is("rstd", rstd, statistic_of(x.dtype()), {x.rows()});
  const OpTimer timer(recorder_, "rms_norm", {x, w, y, rstd});
  do_rms_norm(context, x, w, offset, eps, y, rstd);
}

void Ops::rms_norm_backward(Context& context, ConstView dy, ConstView x, ConstView w, float offset, ConstView rstd,
                            View dx, View dw, Write write) {
  const Checker check("rms_norm_backward");
  check.dims("x", x, 2);
  check.activation("x", x, takes(x.dtype()), name());
  const DType statistic = statistic_of(x.dtype());
  check.is("dy", dy, x.dtype(), x.shape());
  check.is("w", w, x.dtype(), {x.shape()[1]});
  check.is("rstd", rstd, statistic, {x.rows()});
  check.is("dx", dx, x.dtype(), x.shape());
  check.is_or_empty("dw", dw, statistic, {x.shape()[1]});
  const OpTimer timer(recorder_, "rms_norm_backward", {dy, x, w, rstd, dx, dx, dw});
  do_rms_norm_backward(context, dy, x, w, offset, rstd, dx, dw, write);
}

void Ops::dropout_add_norm(Context& context, ConstView x, ConstView residual, const Dropout& dropout, float factor,
                           View sum, const RowNorm& norm, View y, View mean, View rstd) {
  const Checker check("dropout_add_norm");
  check.dims("x", x, 2);
  check.activation("x", x, takes(x.dtype()), name());
  const DType statistic = statistic_of(x.dtype());
  const int64_t rows = x.shape()[0], width = x.shape()[1];
  check.is("residual", residual, x.dtype(), x.shape());
  check.dropout(dropout, rows);
  check.factor(factor);
  check.is("sum", sum, x.dtype(), x.shape());
  check.is("w", norm.w, x.dtype(), {width});
  check.is_or_empty("b", norm.b, x.dtype(), {width});
  check_gain(check, norm.offset, norm.epsilon);
  check.that(norm.centered ? norm.offset == 0 : norm.b.empty(),
             norm.centered ? "a layer norm has no offset" : "an RMS norm has no b");
  check.is("y", y, x.dtype(), x.shape());
  if (norm.centered) check.is("mean", mean, statistic, {rows});
  check.is("rstd", rstd, statistic, {rows});
  const OpTimer timer(recorder_, "dropout_add_norm", {x, residual, sum, norm.w, norm.b, y, mean, rstd});
  do_dropout_add_norm(context, x, residual, dropout, factor, sum, norm, y, mean, rstd);
}

void Ops::do_dropout_add_norm(Context& context, ConstView x, ConstView residual, const Dropout& dropout, float factor,
                              View sum, const RowNorm& norm, View y, View mean, View rstd) {
  do_dropout_add(context, x, residual, dropout, sum, factor);
  norm.centered ? do_layer_norm(context, sum, norm.w, norm.b, norm.epsilon, y, mean, rstd)
                : do_rms_norm(context, sum, norm.w, norm.offset, norm.epsilon, y, rstd);
}

void Ops::query_key_squares(Context& context, ConstView qkv, const QueryKeyNorm& norm, View squares) {
  const Checker check("query_key_squares");
  check_query_key(check, qkv, takes(qkv.dtype()), name(), norm);
  check.is("squares", squares, statistic_of(qkv.dtype()), statistics_shape(qkv, norm));
  const OpTimer timer(recorder_, "query_key_squares", {qkv, squares});
  do_query_key_squares(context, qkv, norm, squares);
}

void Ops::query_key_norm(Context& context, ConstView qkv, const QueryKeyNorm& norm, ConstView squares, View y) {
  const Checker check("query_key_norm");
  check_query_key(check, qkv, takes(qkv.dtype()), name(), norm);
  check.is("squares", squares, statistic_of(qkv.dtype()), statistics_shape(qkv, norm));
  check.is("y", y, qkv.dtype(), qkv.shape());
  const OpTimer timer(recorder_, "query_key_norm", {qkv, squares, y});
  do_query_key_norm(context, qkv, norm, squares, y);
}

void Ops::query_key_products(Context& context, ConstView dqkv, ConstView qkv, const QueryKeyNorm& norm, View products) {
  const Checker check("query_key_products");
  check_query_key(check, qkv, takes(qkv.dtype()), name(), norm);
  check.is("dqkv", dqkv, qkv.dtype(), qkv.shape());
  check.is("products", products, statistic_of(qkv.dtype()), statistics_shape(qkv, norm));
  const OpTimer timer(recorder_, "query_key_products", {dqkv, qkv, products});
  do_query_key_products(context, dqkv, qkv, norm, products);
}

void Ops::query_key_norm_backward(Context& context, View dqkv, ConstView qkv, const QueryKeyNorm& norm,
                                  ConstView squares, ConstView products, View dq, View dk, Write write) {
  const Checker check("query_key_norm_backward");
  check_query_key(check, qkv, takes(qkv.dtype()), name(), norm);
  const DType statistic = statistic_of(qkv.dtype());
  check.is("dqkv", dqkv, qkv.dtype(), qkv.shape());
  check.is("squares", squares, statistic, statistics_shape(qkv, norm));
  check.is("products", products, statistic, statistics_shape(qkv, norm));
  check.is_or_empty("dq", dq, statistic, norm.q.shape());
  check.is_or_empty("dk", dk, statistic, norm.k.shape());
  const OpTimer timer(recorder_, "query_key_norm_backward", {dqkv, dqkv, qkv, squares, products});
  do_query_key_norm_backward(context, dqkv, qkv, norm, squares, products, dq, dk, write);
}

}  // namespace trireme
