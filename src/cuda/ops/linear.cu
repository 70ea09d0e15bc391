// Linear layers: products by the library, bias gradients by own kernels.

#include <algorithm>

#include "cuda/column_sums.h"
#include "cuda/cuda_ops.h"
#include "cuda/launch.h"
#include "cuda/scratch.h"

namespace trireme {
namespace {

using namespace gpu;

template <class T>
struct BiasArguments {
  Global<const T> dy;
  Global<float> partials;  ///< [chunks, width]
  int64_t rows, width, chunk_rows;
  bool fast;
};

template <class T>
TRIREME_KERNEL bias_partials(BiasArguments<T> a) {
  sum_chunk<1, 4>(
      a.rows, a.width, a.chunk_rows,
      [&](int64_t row, int64_t channel) {
        return load_raw(a.dy, row * a.width + channel, (row + 1) * a.width, a.fast);
      },
      [&](int64_t, int64_t, const Raw<T>& raw, Pack(&sums)[1]) {
        const Pack x = unpack(raw);
        TRIREME_UNROLL
        for (int i = 0; i < kPack; ++i) sums[0].v[i] += x.v[i];
      },
      [&](int, int64_t chunk, int64_t channel, float sum) { a.partials[chunk * a.width + channel] = sum; });
}

template <class T>
struct RepeatArguments {
  RowPacks packs;
  Global<const T> row;
  Global<T> y;
};

/// y[i] = row for every i.
template <class T>
TRIREME_KERNEL repeat_row(RepeatArguments<T> a) {
  const auto [row, channel, valid] = a.packs.place();
  if (!valid) return;
  const int64_t width = a.packs.width;
  store_pack(load_pack(a.row, channel, width, false), a.y, row * width + channel, (row + 1) * width, false);
}

}  // namespace

size_t column_sums_scratch_bytes(int64_t rows, int64_t width) {
  return scratch_size(DType::f32, ColumnChunks(rows, width).count * width);
}

size_t CudaOps::scratch_bytes(const CallSizes& s) const {
  return std::max({embedding_scratch_bytes(s.rows, s.width), column_sums_scratch_bytes(s.rows, s.width),
                   norm_scratch_bytes(s.rows, s.width),
                   scratch_size(DType::f32, 128 * 1024),  // gains of queries and keys: ColumnChunks of any width
                   attention_scratch_bytes(s.rows, s.attention), library_scratch_bytes(s)});
}

void CudaOps::do_linear(Context& context, ConstView x, ConstView w, ConstView bias, View y) {
  if (y.count() == 0) return;
  const gpu::Stream stream = gpu_stream(*context.stream);
  // cuBLASLt's kernels for odd widths round the product to bf16 before they add a bias: there y begins as the bias.
  const bool apart = !bias.empty() && y.shape()[1] % kPack != 0;
  if (apart) {
    with_element(y.dtype(), [&](auto element) {
      using T = decltype(element);
      const RowPacks rows(y.rows(), y.shape()[1]);
      launch("repeat_row", stream, rows.grid(), RowPacks::kThreads, 0, repeat_row<T>,
             RepeatArguments<T>{rows, global<T>(bias), global<T>(y)});
    });
  }
  products_->multiply(stream, x, false, w, true, apart ? ConstView() : bias, apart ? 1.0f : 0.0f, y);
}

void CudaOps::do_linear_activation(Context& context, ConstView x, ConstView w, ConstView bias, Activation f, View pre,
                                   View y) {
  // In bf16 the library's approximation of tanh is well below the rounding of y.
  if (f == Activation::gelu_tanh && y.dtype() == DType::bf16 && y.shape()[1] % kPack == 0 && y.count() > 0 &&
      products_->multiply_gelu(gpu_stream(*context.stream), x, w, bias, pre, y))
    return;
  do_linear(context, x, w, bias, pre);
  do_activation(context, pre, f, y);
}

void CudaOps::do_linear_backward_input(Context& context, ConstView dy, ConstView w, View dx) {
  if (dx.count() > 0) products_->multiply(gpu_stream(*context.stream), dy, false, w, false, {}, 0, dx);
}

void CudaOps::do_linear_backward_weight(Context& context, ConstView dy, ConstView x, View dw, Write write) {
  if (dy.rows() > 0) {
    products_->multiply(gpu_stream(*context.stream), dy, true, x, false, {}, write == Write::overwrite ? 0.0f : 1.0f,
                        dw);
  } else if (write == Write::overwrite) {
    do_zero(context, dw);
  }
}

void CudaOps::do_bias_backward(Context& context, ConstView dy, View db, Write write) {
  const ArenaScope scope(*context.scratch);
  const int64_t rows = dy.rows(), width = dy.shape()[1];
  const ColumnChunks chunks(rows, width);
  const View partials = context.scratch->take(DType::f32, {chunks.count, width});
  with_element(dy.dtype(), [&](auto element) {
    using T = decltype(element);
    const BiasArguments<T> arguments{global<T>(dy), global<float>(partials), rows, width,
                                     chunks.rows,   packs(width, {dy})};
    launch("bias_backward", gpu_stream(*context.stream), chunks.grid(), ColumnChunks::kThreads,
           ColumnChunks::shared_bytes<1>(), bias_partials<T>, arguments);
  });
  add_partials(context, partials, db, write);
}

}  // namespace trireme
