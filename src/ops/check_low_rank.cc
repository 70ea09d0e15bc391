#include "ops/checker.h"
#include "ops/profile.h"

namespace trireme {

void Ops::linear_low_rank(Context& context, ConstView x, ConstView w, ConstView bias, ConstView inner, ConstView b,
                          View y) {
  const Checker check("linear_low_rank");
  check.dims("x", x, 2);
  check.activation("x", x, takes(x.dtype()), name());
  check.dims("w", w, 2);
  const int64_t in = x.shape()[1], out = w.shape()[0];
  check.is("w", w, x.dtype(), {out, in});
  check.is_or_empty("bias", bias, x.dtype(), {out});
  check.dims("inner", inner, 2);
  const int64_t rank = inner.shape()[1];
  check.is("inner", inner, x.dtype(), {x.rows(), rank});
  check.is("b", b, x.dtype(), {out, rank});
  check.is("y", y, x.dtype(), {x.rows(), out});
  const OpTimer timer(recorder_, "linear_low_rank", {x, w, bias, inner, b, y}, ProductSize{x.rows(), in + rank, out});
  do_linear_low_rank(context, x, w, bias, inner, b, y);
}

void Ops::do_linear_low_rank(Context& context, ConstView x, ConstView w, ConstView bias, ConstView inner, ConstView b,
                             View y) {
  const ArenaScope scope(*context.scratch);
  const View product = context.scratch->take(y.dtype(), y.shape());
  do_linear(context, x, w, bias, y);
  do_linear(context, inner, b, {}, product);
  do_dropout_add(context, product, y, {}, y, 1);
}

void Ops::linear_low_rank_backward_input(Context& context, ConstView dy, ConstView w, ConstView inner, ConstView a,
                                         View dx) {
  const Checker check("linear_low_rank_backward_input");
  check.dims("dy", dy, 2);
  check.activation("dy", dy, takes(dy.dtype()), name());
  check.dims("w", w, 2);
  const int64_t in = w.shape()[1];
  check.is("w", w, dy.dtype(), {dy.shape()[1], in});
  check.dims("inner", inner, 2);
  const int64_t rank = inner.shape()[1];
  check.is("inner", inner, dy.dtype(), {dy.rows(), rank});
  check.is("a", a, dy.dtype(), {rank, in});
  check.is("dx", dx, dy.dtype(), {dy.rows(), in});
  const OpTimer timer(recorder_, "linear_low_rank_backward_input", {dy, w, inner, a, dx},
                      ProductSize{dy.rows(), in, w.shape()[0] + rank});
  do_linear_low_rank_backward_input(context, dy, w, inner, a, dx);
}

void Ops::do_linear_low_rank_backward_input(Context& context, ConstView dy, ConstView w, ConstView inner, ConstView a,
                                            View dx) {
  const ArenaScope scope(*context.scratch);
  const View product = context.scratch->take(dx.dtype(), dx.shape());
  do_linear_backward_input(context, dy, w, dx);
  do_linear_backward_input(context, inner, a, product);
  do_dropout_add(context, product, dx, {}, dx, 1);
}

}  // namespace trireme
