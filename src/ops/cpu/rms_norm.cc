// Normalisation by the root of the mean square. A row is read from memory once, as in norm.cc.

#include <algorithm>
#include <cmath>

#include "ops/cpu/column_sums.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/highway_targets.h"
#include "ops/cpu/team.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/rms_norm.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/cpu/pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

template <class T>
void scale_rows(ConstView x, ConstView w, float offset, float eps, View y, View rstd, Range rows) {
  const TagF32 d;
  const int64_t width = x.shape()[1];
  const T* weight = w.as<T>();
  const VecF32 offset_v = hn::Set(d, offset);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const T* in = x.as<T>() + row * width;
    T* out = y.as<T>() + row * width;
    const float squares = sum_over_pairs<T>(width, [&](int64_t i, auto lanes) HWY_ATTR {
      const auto v = load_streaming(in + i, lanes);
      return multiply(v, v);
    });
    const float r = 1.0f / std::sqrt(squares / static_cast<float>(width) + eps);
    const VecF32 rstd_v = hn::Set(d, r);
    for_each_pair<T>(width, [&](int64_t i, auto lanes) HWY_ATTR {
      const auto gain = add(load(weight + i, lanes), offset_v);
      store(multiply(multiply(load(in + i, lanes), rstd_v), gain), out + i, lanes);
    });
    rstd.as<float>()[row] = r;
  }
}

/// One share of the rows: dx, and the share's own sums dw, in the order of pairs until the end.
template <class T>
void scale_rows_backward(ConstView dy, ConstView x, ConstView w, float offset, ConstView rstd, View dx, float* dw,
                         Range rows) {
  const TagF32 d;
  const int64_t width = x.shape()[1];
  const T* weight = w.as<T>();
  const VecF32 offset_v = hn::Set(d, offset);
  std::fill_n(dw, width, 0.0f);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const T *in = x.as<T>() + row * width, *dout = dy.as<T>() + row * width;
    T* din = dx.as<T>() + row * width;
    const float r = rstd.as<float>()[row];
    const VecF32 rstd_v = hn::Set(d, r);
    PairSum gx;  // of g xhat
    for_each_pair<T>(width, [&](int64_t i, auto lanes) HWY_ATTR {
      const auto xhat = multiply(load_streaming(in + i, lanes), rstd_v), dyv = load_streaming(dout + i, lanes);
      gx.add_product(multiply(dyv, add(load(weight + i, lanes), offset_v)), xhat);
      store(multiply_add(dyv, xhat, load(dw + i, lanes)), dw + i, lanes);
    });
    // dx += dy (gain rstd) + x of_x
    const VecF32 of_x = hn::Set(d, -r * r * (gx.total() / static_cast<float>(width)));
    for_each_pair<T>(width, [&](int64_t i, auto lanes) HWY_ATTR {
      const auto gain = multiply(add(load(weight + i, lanes), offset_v), rstd_v);
      const auto rest = multiply_add(load(in + i, lanes), of_x, load_streaming(din + i, lanes));
      store(multiply_add(load(dout + i, lanes), gain, rest), din + i, lanes);
    });
  }
  if constexpr (is_bf16<T>) order_pairs(dw, width);
}

void rms_norm_rows(ConstView x, ConstView w, float offset, float eps, View y, View rstd, Range rows) {
  with_element(x.dtype(),
               [&](auto element) HWY_ATTR { scale_rows<decltype(element)>(x, w, offset, eps, y, rstd, rows); });
}

void rms_norm_backward_rows(ConstView dy, ConstView x, ConstView w, float offset, ConstView rstd, View dx, float* dw,
                            Range rows) {
  with_element(x.dtype(), [&](auto element) HWY_ATTR {
    scale_rows_backward<decltype(element)>(dy, x, w, offset, rstd, dx, dw, rows);
  });
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {

HWY_EXPORT(rms_norm_rows);
HWY_EXPORT(rms_norm_backward_rows);

void CpuOps::do_rms_norm(Context& context, ConstView x, ConstView w, float offset, float eps, View y, View rstd) {
  for_each_part(context.threads, [&](int part) {
    HWY_DYNAMIC_DISPATCH(rms_norm_rows)(x, w, offset, eps, y, rstd, share_of(x.rows(), part, context.threads));
  });
}

void CpuOps::do_rms_norm_backward(Context& context, ConstView dy, ConstView x, ConstView w, float offset,
                                  ConstView rstd, View dx, View dw, Write write) {
  const ArenaScope scope(*context.scratch);
  const ColumnSums sums(*context.scratch, context.threads, x.shape()[1]);
  for_each_part(
      context.threads,
      [&](int part) {
        HWY_DYNAMIC_DISPATCH(rms_norm_backward_rows)
        (dy, x, w, offset, rstd, dx, sums.of(part), share_of(x.rows(), part, context.threads));
      },
      [&](int part) {
        if (!dw.empty()) sums.finish(part, dw, write);
      });
}

}  // namespace trireme
#endif
