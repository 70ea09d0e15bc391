// Layer normalisation. A row is read from memory once: the later passes over it find it in the first-level cache.
// Weights and biases are widened to f32 once for all rows.

#include <algorithm>
#include <cmath>
#include <span>

#include "ops/cpu/column_sums.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/highway_targets.h"
#include "ops/cpu/team.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/norm.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

template <class T>
void normalise_rows(ConstView x, const float* weight, const float* bias, float eps, View y, View mean, View rstd,
                    Range rows) {
  const TagF32 d;
  const int64_t width = x.shape()[1];
  const auto count = static_cast<float>(width);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const T* in = x.as<T>() + row * width;
    T* out = y.as<T>() + row * width;
    const float m = sum_over(width, [&](int64_t i, auto lanes) HWY_ATTR { return load(in + i, lanes); }) / count;
    const VecF32 mean_v = hn::Set(d, m);
    const float variance = sum_over(width,
                                    [&](int64_t i, auto lanes) HWY_ATTR {
                                      const VecF32 c = hn::Sub(load(in + i, lanes, m), mean_v);
                                      return hn::Mul(c, c);
                                    }) /
                           count;
    const float r = 1.0f / std::sqrt(variance + eps);
    const VecF32 rstd_v = hn::Set(d, r);
    for_each_vector(width, [&](int64_t i, auto lanes) HWY_ATTR {
      const VecF32 xhat = hn::Mul(hn::Sub(load(in + i, lanes), mean_v), rstd_v);
      const VecF32 shift = bias ? load(bias + i, lanes) : hn::Zero(d);
      store(hn::MulAdd(xhat, load(weight + i, lanes), shift), out + i, lanes);
    });
    mean.as<float>()[row] = m;
    rstd.as<float>()[row] = r;
  }
}

/// kRows rows from `row` on: dx, and their part of dw and db, whose running sums are loaded and stored once for them
/// all.
template <int kRows, class T>
HWY_INLINE void backward_of_rows(ConstView dy, ConstView x, const float* weight, ConstView mean, ConstView rstd,
                                 View dx, float* dw, float* db, int64_t row) {
  const TagF32 d;
  const int64_t width = x.shape()[1], at = row * width;
  const T *in = x.as<T>() + at, *dout = dy.as<T>() + at;
  T* din = dx.as<T>() + at;
  VecF32 mean_v[kRows], rstd_v[kRows];
  VecF32 g_sum[kRows], gx_sum[kRows];  // of g = dy w and of g xhat
  for (int r = 0; r < kRows; ++r) {
    mean_v[r] = hn::Set(d, mean.as<float>()[row + r]);
    rstd_v[r] = hn::Set(d, rstd.as<float>()[row + r]);
    g_sum[r] = gx_sum[r] = hn::Zero(d);
  }
  for_each_vector(width, [&](int64_t i, auto lanes) HWY_ATTR {
    const VecF32 w = load(weight + i, lanes);
    VecF32 dw_v = load(dw + i, lanes), db_v = load(db + i, lanes);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const VecF32 xhat = hn::Mul(hn::Sub(load(in + r * width + i, lanes), mean_v[r]), rstd_v[r]);
      const VecF32 dyv = load(dout + r * width + i, lanes), g = hn::Mul(dyv, w);
      g_sum[r] = hn::Add(g_sum[r], g);
      gx_sum[r] = hn::MulAdd(g, xhat, gx_sum[r]);
      dw_v = hn::MulAdd(dyv, xhat, dw_v);
      db_v = hn::Add(dyv, db_v);
    }
    store(dw_v, dw + i, lanes);
    store(db_v, db + i, lanes);
  });
  const auto count = static_cast<float>(width);
  for (int r = 0; r < kRows; ++r) {
    const VecF32 g_mean = hn::Set(d, sum_lanes(g_sum[r]) / count), gx_mean = hn::Set(d, sum_lanes(gx_sum[r]) / count);
    for_each_vector(width, [&, at = r * width](int64_t i, auto lanes) HWY_ATTR {
      const VecF32 xhat = hn::Mul(hn::Sub(load(in + at + i, lanes), mean_v[r]), rstd_v[r]);
      const VecF32 g = hn::MulSub(load(dout + at + i, lanes), load(weight + i, lanes), g_mean);
      const VecF32 inner = hn::NegMulAdd(xhat, gx_mean, g);
      store(hn::MulAdd(rstd_v[r], inner, load(din + at + i, lanes)), din + at + i, lanes);
    });
  }
}

/// One share of the rows: dx, and the share's own sums dw, db.
template <class T>
void normalise_rows_backward(ConstView dy, ConstView x, const float* weight, ConstView mean, ConstView rstd, View dx,
                             float* dw, float* db, Range rows) {
  const int64_t width = x.shape()[1];
  std::fill_n(dw, width, 0.0f);
  std::fill_n(db, width, 0.0f);
  int64_t row = rows.begin;
  constexpr int kTogether = is_bf16<T> ? 2 : 1;  // rows that stay in the first-level cache with what belongs to them
  for (; row + kTogether <= rows.end; row += kTogether)
    backward_of_rows<kTogether, T>(dy, x, weight, mean, rstd, dx, dw, db, row);
  if (row < rows.end) backward_of_rows<1, T>(dy, x, weight, mean, rstd, dx, dw, db, row);
}

void layer_norm_rows(ConstView x, const float* w, const float* b, float eps, View y, View mean, View rstd, Range rows) {
  with_element(x.dtype(),
               [&](auto element) HWY_ATTR { normalise_rows<decltype(element)>(x, w, b, eps, y, mean, rstd, rows); });
}

void layer_norm_backward_rows(ConstView dy, ConstView x, const float* w, ConstView mean, ConstView rstd, View dx,
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

namespace {

/// Values as f32: those of the tensor, or widened in scratch. Null for an empty one.
const float* as_floats(Arena& scratch, ConstView values) {
  if (values.empty()) return nullptr;
  if (values.dtype() == DType::f32) return values.as<float>();
  const std::span<float> wide = scratch.take(DType::f32, values.shape()).values<float>();
  std::ranges::transform(values.values<bf16_t>(), wide.begin(), to_float);
  return wide.data();
}

}  // namespace

void CpuOps::do_layer_norm(Context& context, ConstView x, ConstView w, ConstView b, float eps, View y, View mean,
                           View rstd) {
  const ArenaScope scope(*context.scratch);
  const float *weight = as_floats(*context.scratch, w), *bias = as_floats(*context.scratch, b);
  for_each_part(context.threads, [&](int part) {
    HWY_DYNAMIC_DISPATCH(layer_norm_rows)
    (x, weight, bias, eps, y, mean, rstd, share_of(x.rows(), part, context.threads));
  });
}

void CpuOps::do_layer_norm_backward(Context& context, ConstView dy, ConstView x, ConstView w, ConstView mean,
                                    ConstView rstd, View dx, View dw, View db, Write write) {
  const ArenaScope scope(*context.scratch);
  const float* weight = as_floats(*context.scratch, w);
  const ColumnSums dw_sums(*context.scratch, context.threads, x.shape()[1]);
  const ColumnSums db_sums(*context.scratch, context.threads, x.shape()[1]);
  for_each_part(
      context.threads,
      [&](int part) {
        HWY_DYNAMIC_DISPATCH(layer_norm_backward_rows)
        (dy, x, weight, mean, rstd, dx, dw_sums.of(part), db_sums.of(part), share_of(x.rows(), part, context.threads));
      },
      [&](int part) {
        dw_sums.finish(part, dw, write);
        if (!db.empty()) db_sums.finish(part, db, write);
      });
}

}  // namespace trireme
#endif
