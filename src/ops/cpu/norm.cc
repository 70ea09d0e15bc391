// Layer normalisation. A row is read from memory once: the later passes over it find it in the first-level cache.

#include <algorithm>
#include <cmath>

#include "ops/cpu/column_sums.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/highway_targets.h"
#include "ops/cpu/team.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/norm.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/cpu/pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

template <class T>
void normalise_rows(ConstView x, ConstView w, ConstView b, float eps, View y, View mean, View rstd, Range rows) {
  const TagF32 d;
  const int64_t width = x.shape()[1];
  const auto count = static_cast<float>(width);
  const T *weight = w.as<T>(), *bias = b.empty() ? nullptr : b.as<T>();
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const T* in = x.as<T>() + row * width;
    T* out = y.as<T>() + row * width;
    const float m =
        sum_over_pairs<T>(width, [&](int64_t i, auto lanes) HWY_ATTR { return load_streaming(in + i, lanes); }) / count;
    const VecF32 mean_v = hn::Set(d, m);
    const float variance = sum_over_pairs<T>(width,
                                             [&](int64_t i, auto lanes) HWY_ATTR {
                                               const auto c = subtract(load(in + i, lanes, m), mean_v);
                                               return multiply(c, c);
                                             }) /
                           count;
    const float r = 1.0f / std::sqrt(variance + eps);
    const VecF32 rstd_v = hn::Set(d, r);
    for_each_pair<T>(width, [&](int64_t i, auto lanes) HWY_ATTR {
      const auto xhat = multiply(subtract(load(in + i, lanes), mean_v), rstd_v), scaled = load(weight + i, lanes);
      store(bias ? multiply_add(xhat, scaled, load(bias + i, lanes)) : multiply(xhat, scaled), out + i, lanes);
    });
    mean.as<float>()[row] = m;
    rstd.as<float>()[row] = r;
  }
}

/// A row's values in backward.
template <class T>
struct RowOfBackward {
  const T *x, *dy;
  T* dx;
  VecF32 mean, rstd;
  PairSum g_sum, gx_sum;  ///< of g = dy w and of g xhat

  HWY_INLINE RowOfBackward() {}  // NOLINT: the compiler's own is not of this instruction set
  HWY_INLINE RowOfBackward(ConstView x_of_all, ConstView dy_of_all, View dx_of_all, float m, float s, int64_t at)
      : x(x_of_all.as<T>() + at),
        dy(dy_of_all.as<T>() + at),
        dx(dx_of_all.as<T>() + at),
        mean(hn::Set(TagF32(), m)),
        rstd(hn::Set(TagF32(), s)) {}

  template <class Values>
  HWY_INLINE auto xhat(Values of_x) const {
    return multiply(subtract(of_x, mean), rstd);
  }
  /// dx += rstd (g - mean(g) - xhat mean(g xhat))
  HWY_INLINE void add_dx(const T* weight, int64_t width) const {
    const TagF32 d;
    const auto count = static_cast<float>(width);
    const VecF32 g_mean = hn::Set(d, g_sum.total() / count), gx_mean = hn::Set(d, gx_sum.total() / count);
    if constexpr (is_bf16<T>) {
      // = dy (w rstd) + x of_x + constant: fewer instructions; the error is below rounding
      const VecF32 of_x = hn::Neg(hn::Mul(hn::Mul(rstd, rstd), gx_mean));
      const VecF32 constant = hn::Neg(hn::MulAdd(mean, of_x, hn::Mul(rstd, g_mean)));
      for_each_pair<T>(width, [&](int64_t i, auto lanes) HWY_ATTR {
        const auto rest = multiply_add(load(x + i, lanes), of_x, add(load_streaming(dx + i, lanes), constant));
        store(multiply_add(load(dy + i, lanes), multiply(load(weight + i, lanes), rstd), rest), dx + i, lanes);
      });
    } else {
      for_each_vector(width, [&](int64_t i, auto lanes) HWY_ATTR {
        const VecF32 g = hn::MulSub(load(dy + i, lanes), load(weight + i, lanes), g_mean);
        const VecF32 inner = hn::NegMulAdd(xhat(load(x + i, lanes)), gx_mean, g);
        store(hn::MulAdd(rstd, inner, load_streaming(dx + i, lanes)), dx + i, lanes);
      });
    }
  }
};

/// kRows rows from `row` on: dx, and their part of dw and db, whose running sums are loaded and stored once for them
/// all, in the order of pairs.
template <int kRows, class T>
HWY_INLINE void backward_of_rows(ConstView dy, ConstView x, const T* weight, ConstView mean, ConstView rstd, View dx,
                                 float* dw, float* db, int64_t row) {
  const int64_t width = x.shape()[1];
  RowOfBackward<T> of[kRows];
  for (int r = 0; r < kRows; ++r)
    of[r] = RowOfBackward<T>(x, dy, dx, mean.as<float>()[row + r], rstd.as<float>()[row + r], (row + r) * width);
  for_each_pair<T>(width, [&](int64_t i, auto lanes) HWY_ATTR {
    const auto w = load(weight + i, lanes);
    auto dw_v = load(dw + i, lanes), db_v = load(db + i, lanes);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const auto xhat = of[r].xhat(load_streaming(of[r].x + i, lanes)), dyv = load_streaming(of[r].dy + i, lanes);
      const auto g = multiply(dyv, w);
      of[r].g_sum += g;
      of[r].gx_sum.add_product(g, xhat);
      dw_v = multiply_add(dyv, xhat, dw_v);
      db_v = add(dyv, db_v);
    }
    store(dw_v, dw + i, lanes);
    store(db_v, db + i, lanes);
  });
  for (int r = 0; r < kRows; ++r) of[r].add_dx(weight, width);
}

/// One share of the rows: dx, and the share's own sums dw, db.
template <class T>
void normalise_rows_backward(ConstView dy, ConstView x, ConstView w, ConstView mean, ConstView rstd, View dx, float* dw,
                             float* db, Range rows) {
  const int64_t width = x.shape()[1];
  std::fill_n(dw, width, 0.0f);
  std::fill_n(db, width, 0.0f);
  int64_t row = rows.begin;
  constexpr int kTogether = is_bf16<T> ? 2 : 1;  // rows that fit the first-level cache with their operands
  for (; row + kTogether <= rows.end; row += kTogether)
    backward_of_rows<kTogether, T>(dy, x, w.as<T>(), mean, rstd, dx, dw, db, row);
  if (row < rows.end) backward_of_rows<1, T>(dy, x, w.as<T>(), mean, rstd, dx, dw, db, row);
  if constexpr (is_bf16<T>) {
    order_pairs(dw, width);
    order_pairs(db, width);
  }
}

void layer_norm_rows(ConstView x, ConstView w, ConstView b, float eps, View y, View mean, View rstd, Range rows) {
  with_element(x.dtype(),
               [&](auto element) HWY_ATTR { normalise_rows<decltype(element)>(x, w, b, eps, y, mean, rstd, rows); });
}

void layer_norm_backward_rows(ConstView dy, ConstView x, ConstView w, ConstView mean, ConstView rstd, View dx,
                              float* dw, float* db, Range rows) {
  with_element(x.dtype(), [&](auto element) HWY_ATTR {
    normalise_rows_backward<decltype(element)>(dy, x, w, mean, rstd, dx, dw, db, rows);
  });
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace trireme {

HWY_EXPORT(layer_norm_rows);
HWY_EXPORT(layer_norm_backward_rows);

void CpuOps::do_layer_norm(Context& context, ConstView x, ConstView w, ConstView b, float eps, View y, View mean,
                           View rstd) {
  for_each_part(context.threads, [&](int part) {
    HWY_DYNAMIC_DISPATCH(layer_norm_rows)
    (x, w, b, eps, y, mean, rstd, share_of(x.rows(), part, context.threads));
  });
}

void CpuOps::do_layer_norm_backward(Context& context, ConstView dy, ConstView x, ConstView w, ConstView mean,
                                    ConstView rstd, View dx, View dw, View db, Write write) {
  const ArenaScope scope(*context.scratch);
  const ColumnSums dw_sums(*context.scratch, context.threads, x.shape()[1]);
  const ColumnSums db_sums(*context.scratch, context.threads, x.shape()[1]);
  for_each_part(
      context.threads,
      [&](int part) {
        HWY_DYNAMIC_DISPATCH(layer_norm_backward_rows)
        (dy, x, w, mean, rstd, dx, dw_sums.of(part), db_sums.of(part), share_of(x.rows(), part, context.threads));
      },
      [&](int part) {
        if (!dw.empty()) dw_sums.finish(part, dw, write);
        if (!db.empty()) db_sums.finish(part, db, write);
      });
}

}  // namespace trireme
#endif
