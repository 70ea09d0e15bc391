// Magnitudes of a linear's outputs (DoRA): the lengths of its rows, and its outputs by them.

#include <algorithm>
#include <cmath>

#include "ops/cpu/column_sums.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/highway_targets.h"
#include "ops/cpu/team.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/magnitudes.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

/// `kRows` neighbouring rows at once, so that a vector of `a` is read once for all of them.
template <class T, int kRows>
HWY_INLINE void squares_of(ConstView w, ConstView b, ConstView a, int64_t row, float* squares) {
  const int64_t in = w.shape()[1], rank = a.shape()[0];
  const T *weights = w.as<T>() + row * in, *of_a = a.as<T>(), *of_b = b.as<T>() + row * rank;
  VecF32 sums[kRows];
  for (VecF32& sum : sums) sum = hn::Zero(TagF32());
  for_each_vector(in, [&](int64_t i, auto lanes) HWY_ATTR {
    VecF32 values[kRows];
    for (int r = 0; r < kRows; ++r) values[r] = load(weights + r * in + i, lanes);
    for (int64_t k = 0; k < rank; ++k) {
      const VecF32 v = load(of_a + k * in + i, lanes);
      for (int r = 0; r < kRows; ++r)
        values[r] = hn::MulAdd(hn::Set(TagF32(), as_float(of_b[r * rank + k])), v, values[r]);
    }
    for (int r = 0; r < kRows; ++r) sums[r] = hn::MulAdd(values[r], values[r], sums[r]);
  });
  for (int r = 0; r < kRows; ++r) squares[r] = sum_lanes(sums[r]);
}

void low_rank_squares(ConstView w, ConstView b, ConstView a, View squares, Range rows) {
  constexpr int kRows = 4;
  with_element(w.dtype(), [&](auto element) HWY_ATTR {
    using T = decltype(element);
    float* const out = squares.as<float>();
    int64_t row = rows.begin;
    for (; row + kRows <= rows.end; row += kRows) squares_of<T, kRows>(w, b, a, row, out + row);
    for (; row < rows.end; ++row) squares_of<T, 1>(w, b, a, row, out + row);
  });
}

void scale_columns(ConstView x, ConstView factors, ConstView bias, View y, Range rows) {
  with_element(x.dtype(), [&](auto element) HWY_ATTR {
    using T = decltype(element);
    const int64_t width = x.shape()[1];
    const float* const factor = factors.as<float>();
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const T* const in = x.as<T>() + row * width;
      T* const out = y.as<T>() + row * width;
      for_each_vector(width, [&](int64_t i, auto lanes) HWY_ATTR {
        const VecF32 value = load_streaming(in + i, lanes), by = load(factor + i, lanes);
        store(bias.empty() ? hn::Mul(value, by) : hn::MulAdd(value, by, load(bias.as<T>() + i, lanes)), out + i, lanes);
      });
    }
  });
}

/// One share of the rows: dx, and the share's own sums.
void scale_columns_backward(ConstView dy, ConstView x, ConstView factors, View dx, float* products, Range rows) {
  with_element(x.dtype(), [&](auto element) HWY_ATTR {
    using T = decltype(element);
    const int64_t width = x.shape()[1];
    const float* const factor = factors.as<float>();
    std::fill_n(products, width, 0.0f);
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const T *const in = x.as<T>() + row * width, *const dout = dy.as<T>() + row * width;
      T* const din = dx.as<T>() + row * width;
      for_each_vector(width, [&](int64_t i, auto lanes) HWY_ATTR {
        const VecF32 gradient = load_streaming(dout + i, lanes), value = load_streaming(in + i, lanes);
        store(hn::MulAdd(gradient, value, load(products + i, lanes)), products + i, lanes);
        store(hn::Mul(gradient, load(factor + i, lanes)), din + i, lanes);
      });
    }
  });
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {

HWY_EXPORT(low_rank_squares);
HWY_EXPORT(scale_columns);
HWY_EXPORT(scale_columns_backward);

void CpuOps::do_low_rank_squares(Context& context, ConstView w, ConstView b, ConstView a, View squares) {
  for_each_part(context.threads, [&](int part) {
    HWY_DYNAMIC_DISPATCH(low_rank_squares)(w, b, a, squares, share_of(w.rows(), part, context.threads));
  });
}

void CpuOps::do_magnitude_factors(Context&, ConstView magnitudes, ConstView squares, View factors, View inverses) {
  for (int64_t i = 0; i < magnitudes.count(); ++i) {
    const float magnitude = magnitudes.as<float>()[i], inverse = 1 / std::sqrt(squares.as<float>()[i]);
    factors.as<float>()[i] = magnitude == 0 ? 1 : magnitude * inverse;
    inverses.as<float>()[i] = inverse;
  }
}

void CpuOps::do_scale_columns(Context& context, ConstView x, ConstView factors, ConstView bias, View y) {
  for_each_part(context.threads, [&](int part) {
    HWY_DYNAMIC_DISPATCH(scale_columns)(x, factors, bias, y, share_of(x.rows(), part, context.threads));
  });
}

void CpuOps::do_scale_columns_backward(Context& context, ConstView dy, ConstView x, ConstView factors, View dx,
                                       View products) {
  const ArenaScope scope(*context.scratch);
  const ColumnSums sums(*context.scratch, context.threads, x.shape()[1]);
  for_each_part(
      context.threads,
      [&](int part) {
        HWY_DYNAMIC_DISPATCH(scale_columns_backward)
        (dy, x, factors, dx, sums.of(part), share_of(x.rows(), part, context.threads));
      },
      [&](int part) { sums.finish(part, products, Write::overwrite); });
}

}  // namespace trireme
#endif
