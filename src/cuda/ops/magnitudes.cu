// Magnitudes of a linear's outputs (DoRA). Bytes per element: row lengths read the weights once; scaling reads 1,
// writes 1; its backward reads 2, writes 1.

#include "cuda/column_sums.h"
#include "cuda/cuda_ops.h"
#include "cuda/launch.h"

namespace trireme {
namespace {

using namespace gpu;

constexpr int kRowsPerBlock = 4;

template <class T>
struct SquaresArguments {
  Global<const T> w, b, a;
  Global<float> squares;
  int64_t rows, in, rank;
};

/// A warp per row.
template <class T>
TRIREME_KERNEL row_squares(SquaresArguments<T> s) {
  const int64_t row = static_cast<int64_t>(block_x()) * kRowsPerBlock + thread() / kWarp;
  if (row >= s.rows) return;
  float sum = 0;
  for (int64_t i = thread() % kWarp; i < s.in; i += kWarp) {
    float value = widen(s.w[row * s.in + i]);
    for (int64_t k = 0; k < s.rank; ++k) value += widen(s.b[row * s.rank + k]) * widen(s.a[k * s.in + i]);
    sum += value * value;
  }
  sum = warp_sum(sum);
  if (thread() % kWarp == 0) s.squares[row] = sum;
}

struct FactorsArguments {
  Global<const float> magnitudes, squares;
  Global<float> factors, inverses;
  int64_t count;
};

TRIREME_KERNEL factors_of_magnitudes(FactorsArguments a) {
  const int64_t i = static_cast<int64_t>(block_x()) * 256 + thread();
  if (i >= a.count) return;
  const float inverse = div_rn(1.0f, sqrt_rn(a.squares[i])), magnitude = a.magnitudes[i];
  a.factors[i] = magnitude == 0 ? 1 : mul_rn(magnitude, inverse);
  a.inverses[i] = inverse;
}

template <class T>
struct ScaleArguments {
  Global<const T> x, bias;
  Global<const float> factors;
  Global<T> y;
  RowPacks packs;
  bool fast;
};

template <class T>
TRIREME_KERNEL scaled_columns(ScaleArguments<T> a) {
  const auto [row, channel, valid] = a.packs.place();
  if (!valid) return;
  const int64_t width = a.packs.width, at = row * width + channel, end = (row + 1) * width;
  Pack x = load_pack(a.x, at, end, a.fast);
  const Pack factor = load_pack(a.factors, channel, width, a.fast);
  const Pack bias = a.bias.empty() ? Pack{} : load_pack(a.bias, channel, width, a.fast);
  TRIREME_UNROLL
  for (int i = 0; i < kPack; ++i) x.v[i] = x.v[i] * factor.v[i] + bias.v[i];
  store_pack(x, a.y, at, end, a.fast);
}

template <class T>
struct ScaleBackwardArguments {
  Global<const T> dy, x;
  Global<const float> factors;
  Global<T> dx;
  Global<float> partials;  ///< [chunks, width]
  int64_t rows, width, chunk_rows;
  bool fast;
};

template <class T>
TRIREME_KERNEL scaled_columns_gradient(ScaleBackwardArguments<T> a) {
  struct Loaded {
    Raw<T> x, dy;
  };
  sum_chunk<1, 2>(
      a.rows, a.width, a.chunk_rows,
      [&](int64_t row, int64_t channel) {
        const int64_t at = row * a.width + channel, end = (row + 1) * a.width;
        return Loaded{load_raw(a.x, at, end, a.fast), load_raw(a.dy, at, end, a.fast)};
      },
      [&](int64_t row, int64_t channel, const Loaded& loaded, Pack(&sums)[1]) {
        const Pack x = unpack(loaded.x), factor = load_pack(a.factors, channel, a.width, a.fast);
        Pack d = unpack(loaded.dy);
        TRIREME_UNROLL
        for (int i = 0; i < kPack; ++i) {
          sums[0].v[i] += d.v[i] * x.v[i];
          d.v[i] *= factor.v[i];
        }
        store_pack(d, a.dx, row * a.width + channel, (row + 1) * a.width, a.fast);
      },
      [&](int, int64_t chunk, int64_t channel, float sum) { a.partials[chunk * a.width + channel] = sum; });
}

}  // namespace

void CudaOps::do_low_rank_squares(Context& context, ConstView w, ConstView b, ConstView a, View squares) {
  with_element(w.dtype(), [&](auto element) {
    using T = decltype(element);
    const SquaresArguments<T> arguments{global<T>(w), global<T>(b), global<T>(a), global<float>(squares),
                                        w.rows(),     w.shape()[1], a.shape()[0]};
    launch("low_rank_squares", gpu_stream(*context.stream), {ceil_divide(w.rows(), kRowsPerBlock), 1, 1},
           kRowsPerBlock * kWarp, 0, row_squares<T>, arguments);
  });
}

void CudaOps::do_magnitude_factors(Context& context, ConstView magnitudes, ConstView squares, View factors,
                                   View inverses) {
  const int64_t count = magnitudes.count();
  const FactorsArguments arguments{global<float>(magnitudes), global<float>(squares), global<float>(factors),
                                   global<float>(inverses), count};
  launch("magnitude_factors", gpu_stream(*context.stream), {ceil_divide(count, 256), 1, 1}, 256, 0,
         factors_of_magnitudes, arguments);
}

void CudaOps::do_scale_columns(Context& context, ConstView x, ConstView factors, ConstView bias, View y) {
  if (x.count() == 0) return;
  with_element(x.dtype(), [&](auto element) {
    using T = decltype(element);
    const int64_t width = x.shape()[1];
    const ScaleArguments<T> arguments{global<T>(x), global<T>(bias),           global<float>(factors),
                                      global<T>(y), RowPacks(x.rows(), width), packs(width, {x, y, factors, bias})};
    launch("scale_columns", gpu_stream(*context.stream), arguments.packs.grid(), RowPacks::kThreads, 0,
           scaled_columns<T>, arguments);
  });
}

void CudaOps::do_scale_columns_backward(Context& context, ConstView dy, ConstView x, ConstView factors, View dx,
                                        View products) {
  const ArenaScope scope(*context.scratch);
  const int64_t rows = dy.rows(), width = dy.shape()[1];
  const ColumnChunks chunks(rows, width);
  const View partials = context.scratch->take(DType::f32, {chunks.count, width});
  with_element(x.dtype(), [&](auto element) {
    using T = decltype(element);
    const ScaleBackwardArguments<T> arguments{global<T>(dy),
                                              global<T>(x),
                                              global<float>(factors),
                                              global<T>(dx),
                                              global<float>(partials),
                                              rows,
                                              width,
                                              chunks.rows,
                                              packs(width, {dy, x, dx, factors})};
    launch("scale_columns_backward", gpu_stream(*context.stream), chunks.grid(), ColumnChunks::kThreads,
           ColumnChunks::shared_bytes<1>(), scaled_columns_gradient<T>, arguments);
  });
  add_partials(context, partials, products, Write::overwrite);
}

}  // namespace trireme
