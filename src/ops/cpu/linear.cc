// Linear layers: the products themselves are in gemm.cc. Where the CPU has no bf16 instructions, bf16 operands are
// widened to f32 in scratch, multiplied at the f32 rate, and the result is rounded once.

#include "ops/cpu/linear.h"

#include "ops/cpu/column_sums.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/gemm.h"
#include "ops/cpu/highway_targets.h"
#include "ops/cpu/panel_gemm.h"
#include "ops/cpu/team.h"
#include "ops/cpu/tile_panel_gemm.h"

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
      VecF32 sum = load_streaming(at, lanes);
      for (int64_t r = 1; r < kTogether; ++r) sum = hn::Add(sum, load_streaming(at + r * width, lanes));
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
  // One row of weights is soon read, and with the sum at its end a CPU runs ahead of too few loads. The rows that
  // follow are the next ones in memory.
  constexpr int64_t kAhead = 4096 / static_cast<int64_t>(sizeof(T));
  for (int64_t column = columns.begin; column < columns.end; ++column) {
    const T* weights = w.as<T>() + column * in;
    const float shift = bias.empty() ? 0.0f : as_float(bias.as<T>()[column]);
    for (int64_t row = 0; row < x.rows(); ++row) {
      const float* values = x.as<float>() + row * in;
      const float sum = sum_over(in, [&](int64_t i, auto lanes) HWY_ATTR {
        hwy::Prefetch(weights + i + kAhead);
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

// Floats of widened activations at a time: 64 MiB.
constexpr int64_t kWidenedFloats = int64_t{16} << 20;
constexpr int64_t kLeastRows = 256;  // fewer rows would make the product slower

/// Up to this number of rows a product is one pass over the weights, at the speed of memory: generation. oneDNN reaches
/// half.
constexpr int64_t kFewRows = 4;

bool needs_widening(ConstView v) { return v.dtype() == DType::bf16 && !multiplies_bf16(); }

/// Rows multiplied at a time by a layer of these sizes: all, or those that are widened.
int64_t rows_at_once(ConstView activations, int64_t in, int64_t out) {
  if (!needs_widening(activations)) return std::max<int64_t>(activations.rows(), 1);
  return std::max(kLeastRows, kWidenedFloats / (in + std::min(out, kWideBlock)));
}

/// f(part) for each part of [0, n) of at most `most`.
template <class F>
void for_each_share(int64_t n, int64_t most, F&& f) {
  for (int64_t first = 0; first < n; first += most) f(Range{first, std::min(n, first + most)});
}

template <class AnyView>
AnyView rows_of(AnyView v, Range rows) {
  return v.empty() ? v : v.rows_slice(rows.begin, rows.end - rows.begin);
}

/// Some columns of a matrix, with its row stride.
template <class AnyView>
AnyView columns_of(AnyView matrix, Range columns) {
  using Bytes = std::conditional_t<std::is_same_v<AnyView, View>, char*, const char*>;
  auto* first = static_cast<Bytes>(matrix.data()) + static_cast<size_t>(columns.begin) * size_of(matrix.dtype());
  return {first, matrix.dtype(), {matrix.rows(), columns.end - columns.begin}};
}

}  // namespace

size_t linear_scratch_bytes(const CallSizes& sizes) {
  const auto floats = [](int64_t n) { return static_cast<size_t>(n) * sizeof(float); };
  const int64_t inputs = sizes.inputs > 0 ? sizes.inputs : sizes.width, outputs = std::min(sizes.width, kWideBlock);
  const int64_t weight = std::min(sizes.weight_count, inputs * outputs);  // packed or widened at a time
  const bool widens = sizes.dtype == DType::bf16 && !multiplies_bf16();
  const DType dtype = widens ? DType::f32 : sizes.dtype;
  size_t products = 0, gradient = 0;
  if (may_be_packed(sizes.rows, dtype))
    products = static_cast<size_t>(weight) * size_of(dtype) + Gemm::packed_bytes(outputs, inputs, dtype) -
               static_cast<size_t>(outputs * inputs) * size_of(dtype);
  if (best_layout({GemmKind::weight, sizes.rows, inputs, outputs, dtype}) == GemmLayout::packed)
    gradient = Gemm::packed_bytes(sizes.rows, inputs, dtype);
  if (may_take_panels(sizes.rows))
    products = gradient = panel_scratch_bytes(sizes.rows, inputs, sizes.width, dtype, sizes.threads, sizes.rank);
  if (may_take_tiles(sizes.rows, dtype)) {  // other products of the same layers may be oneDNN's
    const size_t tiles = tile_scratch_bytes(sizes.rows, inputs, sizes.width, sizes.threads, sizes.rank);
    products = std::max(products, tiles), gradient = std::max(gradient, tiles);
  }
  gradient += floats(sizes.added_count);
  if (widens) {  // inputs and outputs of some rows, the weight, the bias
    const int64_t across = inputs + outputs;
    const size_t rows = floats(std::min(sizes.rows * across, std::max(kWidenedFloats, kLeastRows * across)));
    products += rows + floats(weight + outputs);
    gradient += rows;
  } else if (sizes.dtype == DType::bf16 && sizes.width > kWideBlock) {
    products += floats(sizes.rows * inputs);  // sums of the blocks
  }
  return std::max({products, gradient, ColumnSums::scratch_bytes(sizes.threads, sizes.width)}) +
         8 * 64;  // each tensor starts on a cache line
}

/// then(rows, outputs) is called when those outputs of those rows are ready.
template <class Then>
void CpuOps::linear_blocks(Context& context, ConstView x, ConstView w, ConstView bias, View y, Then&& then) {
  const bool widens = needs_widening(x);
  for_each_share(x.rows(), rows_at_once(x, w.shape()[1], w.rows()), [&](Range rows) {
    const ArenaScope scope(*context.scratch);
    const ConstView inputs = operand(context, rows_of(x, rows));
    for_each_share(w.rows(), kWideBlock, [&](Range outputs) {
      const ArenaScope block_scope(*context.scratch);
      const ConstView weights = operand(context, rows_of(w, outputs)), shift = operand(context, rows_of(bias, outputs));
      const View to = columns_of(rows_of(y, rows), outputs);
      const View result = widens ? context.scratch->take(DType::f32, to.shape()) : to;
      gemm_->multiply(context, GemmKind::forward, inputs, weights, shift, result, false,
                      {.a = 0, .c = widens ? 0 : y.shape()[1]});
      if (widens) convert_rows(context, result, result.shape()[1], to, y.shape()[1]);
      then(rows, outputs);
    });
  });
}

void CpuOps::do_linear(Context& context, ConstView x, ConstView w, ConstView bias, View y) {
  if (y.count() == 0) return;
  if (x.rows() > kFewRows) return linear_blocks(context, x, w, bias, y, [](Range, Range) {});
  const ArenaScope scope(*context.scratch);
  constexpr int64_t kUnit = 32;  // columns: shares begin at cache lines, whatever the type
  const ConstView wide = x.dtype() == DType::bf16 ? widen(context, x) : x;
  for_each_part(context.threads, [&](int part) {
    HWY_DYNAMIC_DISPATCH(few_rows_any)
    (wide, w, bias, y, share_of(w.shape()[0], part, context.threads, kUnit));
  });
}

void CpuOps::do_linear_softmax_stats(Context& context, ConstView x, ConstView w, ConstView bias, ConstView targets,
                                     int64_t first_class, int64_t classes, View logits, View max, View sum,
                                     View target) {
  if (x.rows() <= kFewRows || classes == 0)
    return Ops::do_linear_softmax_stats(context, x, w, bias, targets, first_class, classes, logits, max, sum, target);
  linear_blocks(context, x, w, bias, logits, [&](Range rows, Range outputs) {
    const Range counted{outputs.begin, std::min(outputs.end, classes)};
    if (counted.begin < counted.end)
      add_softmax_stats(context, rows_of(logits, rows), rows_of(targets, rows), first_class, counted,
                        rows_of(max, rows), rows_of(sum, rows), rows_of(target, rows));
  });
}

void CpuOps::do_linear_low_rank(Context& context, ConstView x, ConstView w, ConstView bias, ConstView inner,
                                ConstView b, View y) {
  if (y.count() == 0 || w.rows() > kWideBlock || needs_widening(x) ||
      !Gemm::takes_both(GemmKind::forward, x, w, inner, b))
    return Ops::do_linear_low_rank(context, x, w, bias, inner, b, y);
  gemm_->multiply_both(context, GemmKind::forward, x, w, bias, inner, b, y);
}

void CpuOps::do_linear_low_rank_backward_input(Context& context, ConstView dy, ConstView w, ConstView inner,
                                               ConstView a, View dx) {
  if (dx.count() == 0 || w.rows() > kWideBlock || needs_widening(dy) ||
      !Gemm::takes_both(GemmKind::input, dy, w, inner, a))
    return Ops::do_linear_low_rank_backward_input(context, dy, w, inner, a, dx);
  gemm_->multiply_both(context, GemmKind::input, dy, w, {}, inner, a, dx);
}

void CpuOps::do_linear_activation(Context& context, ConstView x, ConstView w, ConstView bias, Activation f, View pre,
                                  View y) {
  do_linear(context, x, w, bias, pre);
  do_activation(context, pre, f, y);
}

void CpuOps::do_linear_backward_input(Context& context, ConstView dy, ConstView w, View dx) {
  if (dx.count() == 0) return;
  const bool widens = needs_widening(dy), several = w.rows() > kWideBlock;
  const bool apart = dx.dtype() == DType::bf16 && (widens || several);  // blocks are added in f32
  for_each_share(dy.rows(), rows_at_once(dy, w.shape()[1], w.rows()), [&](Range rows) {
    const ArenaScope scope(*context.scratch);
    const View to = rows_of(dx, rows), sum = apart ? context.scratch->take(DType::f32, to.shape()) : to;
    for_each_share(w.rows(), kWideBlock, [&](Range outputs) {
      const ArenaScope block_scope(*context.scratch);
      const ConstView some = columns_of(rows_of(dy, rows), outputs), weights = operand(context, rows_of(w, outputs));
      gemm_->multiply(context, GemmKind::input, widens ? widen_rows(context, some, dy.shape()[1]) : some, weights, {},
                      sum, outputs.begin > 0, {.a = widens ? 0 : dy.shape()[1], .c = 0});
    });
    if (apart) do_cast(context, sum, to);
  });
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
  for_each_share(dy.rows(), rows_at_once(dy, x.shape()[1], dw.rows()), [&](Range rows) {
    const ArenaScope scope(*context.scratch);
    const ConstView inputs = operand(context, rows_of(x, rows));
    for_each_share(dw.rows(), kWideBlock, [&](Range outputs) {
      const ArenaScope block_scope(*context.scratch);
      gemm_->multiply(context, GemmKind::weight,
                      widen_rows(context, columns_of(rows_of(dy, rows), outputs), dy.shape()[1]), inputs, {},
                      rows_of(dw, outputs), adds || rows.begin > 0);
    });
  });
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

View CpuOps::widen_rows(Context& context, ConstView bf16, int64_t stride) {
  const View wide = context.scratch->take(DType::f32, bf16.shape());
  convert_rows(context, bf16, stride, wide, wide.shape()[1]);
  return wide;
}

ConstView CpuOps::operand(Context& context, ConstView v) { return needs_widening(v) ? widen(context, v) : v; }

void CpuOps::convert_rows(Context& context, ConstView from, int64_t from_stride, View to, int64_t to_stride) {
  const auto row_of = [](auto matrix, int64_t row, int64_t stride) {
    const int64_t width = matrix.shape()[1];
    matrix = columns_of(matrix, {row * stride, row * stride + width});
    return matrix.first_as({width});
  };
  for_each_part(context.threads, [&](int part) {
    const Range rows = share_of(to.rows(), part, context.threads);
    Context alone{1, nullptr};
    for (int64_t row = rows.begin; row < rows.end; ++row)
      do_cast(alone, row_of(from, row, from_stride), row_of(to, row, to_stride));
  });
}

}  // namespace trireme
#endif
