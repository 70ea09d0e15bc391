// Linear layers: the products themselves are in gemm.cc. Where the CPU has no bf16 instructions, bf16 operands are
// widened to f32 in scratch, multiplied at the f32 rate, and the result is rounded once.

#include "ops/cpu/linear.h"

#include "ops/cpu/column_sums.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/gemm.h"
#include "ops/cpu/highway_targets.h"
#include "ops/cpu/team.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/linear.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

/// sums[i] = sum of column i over the rows of one share.
template <class T>
void sum_columns(ConstView dy, float* sums, Range rows) {
  constexpr int64_t kTogether = 8;  // rows added before they meet the running sums: less traffic, smaller errors
  const int64_t width = dy.shape()[1];
  const T* p = dy.as<T>();
  std::fill_n(sums, width, 0.0f);
  int64_t row = rows.begin;
  for (; row + kTogether <= rows.end; row += kTogether)
    for_each_vector(width, [&](int64_t i, auto lanes) HWY_ATTR {
      const T* at = p + row * width + i;
      VecF32 sum = load(at, lanes);
      for (int64_t r = 1; r < kTogether; ++r) sum = hn::Add(sum, load(at + r * width, lanes));
      store(hn::Add(load(sums + i, lanes), sum), sums + i, lanes);
    });
  for (; row < rows.end; ++row)
    for_each_vector(width, [&](int64_t i, auto lanes) HWY_ATTR {
      store(hn::Add(load(sums + i, lanes), load(p + row * width + i, lanes)), sums + i, lanes);
    });
}

void sum_columns_any(ConstView dy, float* sums, Range rows) {
  dy.dtype() == DType::bf16 ? sum_columns<bf16_t>(dy, sums, rows) : sum_columns<float>(dy, sums, rows);
}

/// Some columns of y = x w^T + bias, x in f32.
template <class T>
void few_rows(ConstView x, ConstView w, ConstView bias, View y, Range columns) {
  const int64_t in = w.shape()[1], out = w.shape()[0];
  for (int64_t column = columns.begin; column < columns.end; ++column) {
    const T* weights = w.as<T>() + column * in;
    const float shift = bias.empty() ? 0.0f : as_float(bias.as<T>()[column]);
    for (int64_t row = 0; row < x.rows(); ++row) {
      const float* values = x.as<float>() + row * in;
      const float sum = sum_over(in, [&](int64_t i, auto lanes) HWY_ATTR {
        return hn::Mul(load(values + i, lanes), load(weights + i, lanes));
      });
      y.as<T>()[row * out + column] = from_float<T>(sum + shift);
    }
  }
}

void few_rows_any(ConstView x, ConstView w, ConstView bias, View y, Range columns) {
  w.dtype() == DType::bf16 ? few_rows<bf16_t>(x, w, bias, y, columns) : few_rows<float>(x, w, bias, y, columns);
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {
HWY_EXPORT(sum_columns_any);
HWY_EXPORT(few_rows_any);

namespace {

// Floats of widened activations at a time: 64 MiB, so that the head of a large vocabulary does not double the plan.
constexpr int64_t kWidenedFloats = int64_t{16} << 20;
constexpr int64_t kLeastRows = 256;  // fewer rows would make the product slower

/// Up to so many rows a product is one pass over the weights, at the speed of memory: generation. oneDNN reaches half.
constexpr int64_t kFewRows = 4;

bool needs_widening(ConstView v) { return v.dtype() == DType::bf16 && !gemm_has_bf16(); }

/// Rows to widen at a time when a row has `floats` of them.
int64_t rows_at_once(int64_t floats) { return std::max(kLeastRows, kWidenedFloats / std::max<int64_t>(floats, 1)); }

}  // namespace

size_t linear_scratch_bytes(const CallSizes& sizes) {
  const auto floats = [](int64_t n) { return static_cast<size_t>(n) * sizeof(float); };
  // A weight has at most `width` outputs, so padding either of its sides to a block adds less than this.
  const auto padded = [&](int64_t weight) { return weight + 2 * 64 * sizes.width + 64 * 64; };
  const bool widens = sizes.dtype == DType::bf16 && !gemm_has_bf16();
  const auto packs = [&](GemmKind kind) {  // a call of fewer rows does not where one of as many does not
    const DType dtype = widens ? DType::f32 : sizes.dtype;
    const GemmShape shape{.kind = kind, .rows = sizes.rows, .in = sizes.width, .out = sizes.width, .dtype = dtype};
    return best_layout(shape) == GemmLayout::packed;
  };
  const int64_t inputs = sizes.inputs > 0 ? sizes.inputs : sizes.width;
  const size_t backward =
      floats(sizes.added_count) + (packs(GemmKind::weight) ? Gemm::packed_bytes(sizes.rows, inputs, DType::bf16) : 0);
  size_t most = std::max(backward, ColumnSums::scratch_bytes(sizes.threads, sizes.width));
  if (widens) {
    // The widened weight, or a gradient, beside widened rows of inputs and outputs; and the packed copy of a weight
    // that leaves enough rows at a time.
    const int64_t across = inputs + sizes.width, packed_across = kWidenedFloats / kRowsWorthACopy;
    const size_t rows =
        floats(sizes.width + std::min(sizes.rows * across, std::max(kWidenedFloats, kLeastRows * across)));
    const int64_t in = std::min(inputs, packed_across / 2),
                  packed = std::min(sizes.weight_count, in * (packed_across - in));
    most = std::max(most, floats(std::max(sizes.weight_count, sizes.added_count)) + rows);
    if (packs(GemmKind::forward))
      most = std::max(most, floats(std::max(packed, sizes.added_count)) + floats(padded(packed)) + rows);
  } else if (packs(GemmKind::forward)) {
    most = std::max(most, static_cast<size_t>(padded(sizes.weight_count)) * size_of(sizes.dtype));
  }
  return most + 8 * 64;  // each tensor starts on a cache line
}

void CpuOps::do_linear(Context& context, ConstView x, ConstView w, ConstView bias, View y) {
  if (y.count() == 0) return;
  const ArenaScope scope(*context.scratch);
  if (x.rows() <= kFewRows) {
    constexpr int64_t kUnit = 32;  // columns: shares begin at cache lines, whatever the type
    const ConstView wide = x.dtype() == DType::bf16 ? widen(context, x) : x;
    return for_each_part(context.threads, [&](int part) {
      HWY_DYNAMIC_DISPATCH(few_rows_any)
      (wide, w, bias, y, share_of(w.shape()[0], part, context.threads, kUnit));
    });
  }
  if (!needs_widening(x)) return gemm_->multiply(context, GemmKind::forward, x, w, bias, y);
  const View wide_bias = bias.empty() ? View() : widen(context, bias);
  multiply_widened(context, GemmKind::forward, x, widen(context, w), wide_bias, y);
}

void CpuOps::do_linear_activation(Context& context, ConstView x, ConstView w, ConstView bias, Activation f, View pre,
                                  View y) {
  do_linear(context, x, w, bias, pre);
  do_activation(context, pre, f, y);
}

void CpuOps::do_linear_backward_input(Context& context, ConstView dy, ConstView w, View dx) {
  if (dx.count() == 0) return;
  if (!needs_widening(dy)) return gemm_->multiply(context, GemmKind::input, dy, w, {}, dx);
  const ArenaScope scope(*context.scratch);
  multiply_widened(context, GemmKind::input, dy, widen(context, w), {}, dx);
}

void CpuOps::do_linear_backward_weight(Context& context, ConstView dy, ConstView x, View dw, Write write) {
  if (write == Write::add) {
    const ArenaScope scope(*context.scratch);
    const View apart = context.scratch->take(DType::f32, dw.shape());
    do_linear_backward_weight(context, dy, x, apart, Write::overwrite);
    return do_add(context, apart, dw);
  }
  const bool adds = write == Write::accumulate;
  if (dy.rows() == 0) return adds ? void() : do_zero(context, dw);
  if (!needs_widening(dy)) return gemm_->multiply(context, GemmKind::weight, dy, x, {}, dw, adds);
  const int64_t step = rows_at_once(dy.shape()[1] + x.shape()[1]);
  for (int64_t first = 0; first < dy.rows(); first += step) {
    const ArenaScope scope(*context.scratch);
    const int64_t n = std::min(step, dy.rows() - first);
    const View wide_dy = widen(context, dy.rows_slice(first, n));
    gemm_->multiply(context, GemmKind::weight, wide_dy, widen(context, x.rows_slice(first, n)), {}, dw,
                    adds || first > 0);
  }
}

void CpuOps::do_bias_backward(Context& context, ConstView dy, View db, Write write) {
  const ArenaScope scope(*context.scratch);
  const int parts = context.threads;
  const ColumnSums sums(*context.scratch, parts, dy.shape()[1]);
  for_each_part(
      parts,
      [&](int part) {
        HWY_DYNAMIC_DISPATCH(sum_columns_any)
        (dy, sums.of(part), share_of(dy.rows(), part, parts));
      },
      [&](int part) { sums.finish(part, db, write); });
}

View CpuOps::widen(Context& context, ConstView bf16) {
  const View wide = context.scratch->take(DType::f32, bf16.shape());
  do_cast(context, bf16, wide);
  return wide;
}

void CpuOps::multiply_widened(Context& context, GemmKind kind, ConstView a, ConstView wide_b, ConstView wide_bias,
                              View c) {
  const int64_t step = rows_at_once(a.shape()[1] + c.shape()[1]);
  for (int64_t first = 0; first < a.rows(); first += step) {
    const ArenaScope scope(*context.scratch);
    const int64_t n = std::min(step, a.rows() - first);
    const View wide_c = context.scratch->take(DType::f32, {n, c.shape()[1]});
    gemm_->multiply(context, kind, widen(context, a.rows_slice(first, n)), wide_b, wide_bias, wide_c);
    do_cast(context, wide_c, c.rows_slice(first, n));
  }
}

}  // namespace trireme
#endif
