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

#include "ops/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

template <class T>
void normalise_rows(ConstView x, ConstView w, ConstView b, float eps, View y, View mean, View rstd, Range rows) {
  const TagF32 d;
  const int64_t width = x.shape()[1];
  const T* weight = w.as<T>();
  const T* bias = b.empty() ? nullptr : b.as<T>();
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

/// One share of the rows: dx, and the share's own sums dw, db.
template <class T>
void normalise_rows_backward(ConstView dy, ConstView x, ConstView w, ConstView mean, ConstView rstd, View dx, float* dw,
                             float* db, Range rows) {
  const TagF32 d;
  const int64_t width = x.shape()[1];
  const T* weight = w.as<T>();
  std::fill_n(dw, width, 0.0f);
  std::fill_n(db, width, 0.0f);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const T* in = x.as<T>() + row * width;
    const T* dout = dy.as<T>() + row * width;
    T* din = dx.as<T>() + row * width;
    const VecF32 mean_v = hn::Set(d, mean.as<float>()[row]), rstd_v = hn::Set(d, rstd.as<float>()[row]);
    VecF32 g_sum = hn::Zero(d), gx_sum = hn::Zero(d);  // of g = dy w and of g xhat
    for_each_vector(width, [&](int64_t i, auto lanes) HWY_ATTR {
      const VecF32 xhat = hn::Mul(hn::Sub(load(in + i, lanes), mean_v), rstd_v);
      const VecF32 dyv = load(dout + i, lanes);
      const VecF32 g = hn::Mul(dyv, load(weight + i, lanes));
      g_sum = hn::Add(g_sum, g);
      gx_sum = hn::MulAdd(g, xhat, gx_sum);
      store(hn::MulAdd(dyv, xhat, load(dw + i, lanes)), dw + i, lanes);
      store(hn::Add(dyv, load(db + i, lanes)), db + i, lanes);
    });
    const auto count = static_cast<float>(width);
    const VecF32 g_mean = hn::Set(d, sum_lanes(g_sum) / count), gx_mean = hn::Set(d, sum_lanes(gx_sum) / count);
    for_each_vector(width, [&](int64_t i, auto lanes) HWY_ATTR {
      const VecF32 xhat = hn::Mul(hn::Sub(load(in + i, lanes), mean_v), rstd_v);
      const VecF32 g = hn::Mul(load(dout + i, lanes), load(weight + i, lanes));
      const VecF32 inner = hn::NegMulAdd(xhat, gx_mean, hn::Sub(g, g_mean));
      store(hn::MulAdd(rstd_v, inner, load(din + i, lanes)), din + i, lanes);
    });
  }
}

void layer_norm_rows(ConstView x, ConstView w, ConstView b, float eps, View y, View mean, View rstd, Range rows) {
  x.dtype() == DType::bf16 ? normalise_rows<bf16_t>(x, w, b, eps, y, mean, rstd, rows)
                           : normalise_rows<float>(x, w, b, eps, y, mean, rstd, rows);
}

void layer_norm_backward_rows(ConstView dy, ConstView x, ConstView w, ConstView mean, ConstView rstd, View dx,
                              float* dw, float* db, Range rows) {
  x.dtype() == DType::bf16 ? normalise_rows_backward<bf16_t>(dy, x, w, mean, rstd, dx, dw, db, rows)
                           : normalise_rows_backward<float>(dy, x, w, mean, rstd, dx, dw, db, rows);
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
        dw_sums.finish(part, dw, write);
        if (!db.empty()) db_sums.finish(part, db, write);
      });
}

}  // namespace trireme
#endif
