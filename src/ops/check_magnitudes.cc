#include "ops/checker.h"
#include "ops/profile.h"

namespace trireme {

void Ops::low_rank_squares(Context& context, ConstView w, ConstView b, ConstView a, View squares) {
  const Checker check("low_rank_squares");
  check.dims("w", w, 2);
  check.activation("w", w, takes(w.dtype()), name());
  check.dims("a", a, 2);
  const int64_t out = w.shape()[0], rank = a.shape()[0];
  check.is("b", b, w.dtype(), {out, rank});
  check.is("a", a, w.dtype(), {rank, w.shape()[1]});
  check.is("squares", squares, statistic_of(w.dtype()), {out});
  const OpTimer timer(recorder_, "low_rank_squares", {w, b, a}, ProductSize{out, rank, w.shape()[1]});
  do_low_rank_squares(context, w, b, a, squares);
}

void Ops::magnitude_factors(Context& context, ConstView magnitudes, ConstView squares, View factors, View inverses) {
  const Checker check("magnitude_factors");
  check.statistic("magnitudes", magnitudes, takes(DType::f64) ? DType::f64 : DType::f32);
  const Shape shape{magnitudes.count()};
  check.is("squares", squares, magnitudes.dtype(), shape);
  check.is("factors", factors, magnitudes.dtype(), shape);
  check.is("inverses", inverses, magnitudes.dtype(), shape);
  const OpTimer timer(recorder_, "magnitude_factors", {magnitudes, squares, factors, inverses});
  do_magnitude_factors(context, magnitudes, squares, factors, inverses);
}

void Ops::scale_columns(Context& context, ConstView x, ConstView factors, ConstView bias, View y) {
  const Checker check("scale_columns");
  check.dims("x", x, 2);
  check.activation("x", x, takes(x.dtype()), name());
  check.is("factors", factors, statistic_of(x.dtype()), {x.shape()[1]});
  check.is_or_empty("bias", bias, x.dtype(), {x.shape()[1]});
  check.is("y", y, x.dtype(), x.shape());
  const OpTimer timer(recorder_, "scale_columns", {x, y});
  do_scale_columns(context, x, factors, bias, y);
}

void Ops::scale_columns_backward(Context& context, ConstView dy, ConstView x, ConstView factors, View dx,
                                 View products) {
  const Checker check("scale_columns_backward");
  check.dims("dy", dy, 2);
  check.activation("dy", dy, takes(dy.dtype()), name());
  check.is("x", x, dy.dtype(), dy.shape());
  check.is("factors", factors, statistic_of(dy.dtype()), {dy.shape()[1]});
  check.is("dx", dx, dy.dtype(), dy.shape());
  check.is("products", products, statistic_of(dy.dtype()), {dy.shape()[1]});
  const OpTimer timer(recorder_, "scale_columns_backward", {dy, x, dx});
  do_scale_columns_backward(context, dy, x, factors, dx, products);
}

}  // namespace trireme
