// Layer norm and RMS norm: a warp per row. Rows of up to 2,048 (backward: 1,024) elements stay in registers between the
// passes over them; longer ones are read again from the cache.

#include <algorithm>

#include "cuda/column_sums.h"
#include "cuda/cuda_ops.h"
#include "cuda/dropout.h"
#include "cuda/launch.h"
#include "cuda/scratch.h"

namespace trireme {
namespace {

using namespace gpu;

constexpr int kRowsPerBlock = 4;

template <class T>
struct NormArguments {
  Global<const T> x, w, b;
  Global<T> y;
  Global<float> mean, rstd;
  int64_t rows, width;
  float epsilon, offset;  ///< offset: added to the weights
  bool centered, fast;    ///< centered: layer norm
};

/// Calls f(pack, first channel) for each pack of a row that this lane has.
template <int kPacks, class F>
TRIREME_DEVICE void for_packs(int64_t width, F f) {
  const int lane = thread() % kWarp;
  if constexpr (kPacks > 0) {
    TRIREME_UNROLL
    for (int p = 0; p < kPacks; ++p) {
      const int64_t channel = static_cast<int64_t>(p * kWarp + lane) * kPack;
      if (channel < width) f(p, channel);
    }
  } else {
    for (int64_t channel = lane * kPack; channel < width; channel += kWarp * kPack) f(0, channel);
  }
}

/// Normalises a row, with one rounding per operation: fusions have the bits of this kernel, whichever kPacks they have.
/// first(p, channel) gives its packs, again(channel) those of a long row once more. kPacks: packs of
/// a row per lane, 0: any number.
template <int kPacks, class T, class First, class Again>
TRIREME_DEVICE void normalise_row(const NormArguments<T>& a, int64_t row, First first, Again again) {
  const int64_t begin = row * a.width, end = begin + a.width;
  Pack held[kPacks > 0 ? kPacks : 1] = {};
  const auto element = [&](int p, int64_t channel) {
    if constexpr (kPacks > 0) {
      return held[p];
    } else {
      return again(channel);
    }
  };
  if constexpr (kPacks > 0) for_packs<kPacks>(a.width, [&](int p, int64_t channel) { held[p] = first(p, channel); });
  float sum = 0;
  for_packs<kPacks>(a.width, [&](int p, int64_t channel) {
    Pack x;
    if constexpr (kPacks > 0) {
      x = held[p];
    } else {
      x = first(p, channel);
    }
    TRIREME_UNROLL
    for (int i = 0; i < kPack; ++i) sum += x.v[i];
  });
  const float inverse_width = 1 / static_cast<float>(a.width),
              mean = a.centered ? mul_rn(warp_sum(sum), inverse_width) : 0;
  float squares = 0;
  for_packs<kPacks>(a.width, [&](int p, int64_t channel) {
    const Pack x = element(p, channel);
    TRIREME_UNROLL
    for (int i = 0; i < kPack; ++i) {
      const float d = x.v[i] - mean;
      squares = add_rn(squares, channel + i < a.width ? mul_rn(d, d) : 0);
    }
  });
  const float rstd = div_rn(1.0f, sqrt_rn(add_rn(mul_rn(warp_sum(squares), inverse_width), a.epsilon)));
  for_packs<kPacks>(a.width, [&](int p, int64_t channel) {
    Pack x = element(p, channel);
    const Pack w = load_pack(a.w, channel, a.width, a.fast);
    const Pack b = a.b.empty() ? Pack{} : load_pack(a.b, channel, a.width, a.fast);
    TRIREME_UNROLL
    for (int i = 0; i < kPack; ++i) x.v[i] = add_rn(mul_rn(mul_rn(x.v[i] - mean, rstd), a.offset + w.v[i]), b.v[i]);
    store_pack(x, a.y, begin + channel, end, a.fast);
  });
  if (thread() % kWarp == 0) {
    if (a.centered) a.mean[row] = mean;
    a.rstd[row] = rstd;
  }
}

/// Read x, write y.
template <class T, int kPacks>
TRIREME_KERNEL norm_forward(NormArguments<T> a) {
  const int64_t row = static_cast<int64_t>(block_x()) * kRowsPerBlock + thread() / kWarp;
  if (row >= a.rows) return;
  const int64_t begin = row * a.width, end = begin + a.width;
  const auto load = [&](int64_t channel) { return load_pack(a.x, begin + channel, end, a.fast); };
  normalise_row<kPacks>(
      a, row, [&](int, int64_t channel) { return load(channel); }, load);
}

template <class T>
struct AddedNormArguments {
  NormArguments<T> norm;  ///< x: the sum
  Global<const T> x, residual;
  Global<T> sum;
  DropArguments drop;
};

/// sum = residual + factor * dropout(x), rounded, and its norm. Read x and residual, write sum and y.
template <class T, int kPacks>
TRIREME_KERNEL added_norm(AddedNormArguments<T> a) {
  const NormArguments<T>& n = a.norm;
  const int64_t row = static_cast<int64_t>(block_x()) * kRowsPerBlock + thread() / kWarp;
  if (row >= n.rows) return;
  const int64_t begin = row * n.width, end = begin + n.width;
  // All of a row is on its way before the first sum is stored.
  Raw<T> x[kPacks > 0 ? kPacks : 1], residual[kPacks > 0 ? kPacks : 1];
  const auto load = [&](int p, int64_t channel) {
    x[p] = load_raw(a.x, begin + channel, end, n.fast);
    residual[p] = load_raw(a.residual, begin + channel, end, n.fast);
  };
  if constexpr (kPacks > 0) for_packs<kPacks>(n.width, load);
  normalise_row<kPacks>(
      n, row,
      [&](int p, int64_t channel) {
        if constexpr (kPacks == 0) load(p, channel);
        Pack sum = unpack(x[p]);
        drop(a.drop, row, channel, sum);
        add_pack(unpack(residual[p]), sum);
        const Raw<T> rounded = to_raw<T>(sum);
        store_raw(rounded, a.sum, begin + channel, end, n.fast);
        return unpack(rounded);
      },
      [&](int64_t channel) { return load_pack(n.x, begin + channel, end, n.fast); });
}

template <class T>
struct NormBackwardArguments {
  Global<const T> dy, x, w;
  Global<const float> mean, rstd;  ///< mean: empty for RMS norm
  Global<T> dx;
  Global<float> partials;  ///< [blocks, 2 x width]: sums of dy xhat, then of dy
  int64_t rows, width, rows_per_warp;
  float offset;
  bool fast;
};

constexpr int kBackwardWarps = 8, kBackwardBlocks = 264;

/// What backward reads of a row, per lane.
template <class T, int kPacks>
struct RowRaw {
  Raw<T> dy[kPacks], x[kPacks], dx[kPacks];
  float mean, rstd;
};

template <class T, int kPacks>
TRIREME_DEVICE void load_row(const NormBackwardArguments<T>& a, int64_t row, RowRaw<T, kPacks>& raw) {
  const int64_t begin = row * a.width, end = begin + a.width;
  raw.mean = a.mean.empty() ? 0 : a.mean[row];
  raw.rstd = a.rstd[row];
  for_packs<kPacks>(a.width, [&](int p, int64_t channel) {
    raw.dy[p] = load_raw(a.dy, begin + channel, end, a.fast);
    raw.x[p] = load_raw(a.x, begin + channel, end, a.fast);
    raw.dx[p] = load_raw(a.dx, begin + channel, end, a.fast);
  });
}

/// Each warp has neighbouring rows, reads one ahead and keeps its sums in registers; the warps of a block are added in
/// order. Read dy, x, dx, write dx.
template <class T, int kPacks>
TRIREME_KERNEL norm_backward(NormBackwardArguments<T> a) {
  constexpr int kWidth = kPacks * kWarp * kPack;
  SharedMemory memory;
  const auto sums = memory.take<float, 2 * kWidth>("sums");
  const int warp = thread() / kWarp, lane = thread() % kWarp;
  Pack dw[kPacks] = {}, db[kPacks] = {};
  Raw<T> weights[kPacks];
  for_packs<kPacks>(a.width, [&](int p, int64_t channel) { weights[p] = load_raw(a.w, channel, a.width, a.fast); });
  const float inverse_width = 1 / static_cast<float>(a.width);
  const int64_t first = (static_cast<int64_t>(block_x()) * kBackwardWarps + warp) * a.rows_per_warp;
  const int64_t last = first + a.rows_per_warp < a.rows ? first + a.rows_per_warp : a.rows;
  RowRaw<T, kPacks> raw;
  if (first < last) load_row(a, first, raw);
  for (int64_t row = first; row < last; ++row) {
    const RowRaw<T, kPacks> now = raw;
    if (row + 1 < last) load_row(a, row + 1, raw);
    float sum = 0, product_sum = 0;  // of dy w, and of dy w xhat
    for_packs<kPacks>(a.width, [&](int p, int64_t channel) {
      const Pack dy = unpack(now.dy[p]), x = unpack(now.x[p]), w = unpack(weights[p]);
      TRIREME_UNROLL
      for (int i = 0; i < kPack; ++i) {
        const float xhat = channel + i < a.width ? (x.v[i] - now.mean) * now.rstd : 0,
                    g = dy.v[i] * (a.offset + w.v[i]);
        sum += g;
        product_sum += g * xhat;
        dw[p].v[i] += dy.v[i] * xhat;
        db[p].v[i] += dy.v[i];
      }
    });
    const float g_mean = a.mean.empty() ? 0 : warp_sum(sum) * inverse_width,
                gx_mean = warp_sum(product_sum) * inverse_width;
    const int64_t begin = row * a.width, end = begin + a.width;
    for_packs<kPacks>(a.width, [&](int p, int64_t channel) {
      const Pack dy = unpack(now.dy[p]), x = unpack(now.x[p]), w = unpack(weights[p]);
      Pack dx = unpack(now.dx[p]);
      TRIREME_UNROLL
      for (int i = 0; i < kPack; ++i) {
        const float xhat = (x.v[i] - now.mean) * now.rstd;
        dx.v[i] += now.rstd * (dy.v[i] * (a.offset + w.v[i]) - g_mean - xhat * gx_mean);
      }
      store_pack(dx, a.dx, begin + channel, end, a.fast);
    });
  }
  // Element i of all packs lies in one run: no two lanes of a warp meet in a bank.
  for (int w = 0; w < kBackwardWarps; ++w) {
    if (w == warp) {
      TRIREME_UNROLL
      for (int p = 0; p < kPacks; ++p) {
        TRIREME_UNROLL
        for (int i = 0; i < kPack; ++i) {
          const int at = (p * kPack + i) * kWarp + lane;
          sums[at] = w == 0 ? dw[p].v[i] : sums[at] + dw[p].v[i];
          sums[kWidth + at] = w == 0 ? db[p].v[i] : sums[kWidth + at] + db[p].v[i];
        }
      }
    }
    sync_block();
  }
  for (int at = thread(); at < kWidth; at += threads()) {
    const int pack = at / (kPack * kWarp), i = at / kWarp % kPack, of_lane = at % kWarp;
    const int64_t channel = static_cast<int64_t>(pack * kWarp + of_lane) * kPack + i;
    if (channel >= a.width) continue;
    a.partials[block_x() * 2 * a.width + channel] = sums[at];
    a.partials[block_x() * 2 * a.width + a.width + channel] = sums[kWidth + at];
  }
}

/// dx of a long row, read twice.
template <class T>
TRIREME_DEVICE void backward_row(const NormBackwardArguments<T>& a, int64_t row) {
  const int64_t begin = row * a.width, end = begin + a.width;
  const float mean = a.mean.empty() ? 0 : a.mean[row], rstd = a.rstd[row];
  float sum = 0, product_sum = 0;
  for_packs<0>(a.width, [&](int, int64_t channel) {
    const Pack dy = load_pack(a.dy, begin + channel, end, a.fast);
    const Pack x = load_pack(a.x, begin + channel, end, a.fast), w = load_pack(a.w, channel, a.width, a.fast);
    TRIREME_UNROLL
    for (int i = 0; i < kPack; ++i) {
      const float g = dy.v[i] * (a.offset + w.v[i]);
      sum += g;
      product_sum += g * ((x.v[i] - mean) * rstd);
    }
  });
  const float inverse_width = 1 / static_cast<float>(a.width);
  const float g_mean = a.mean.empty() ? 0 : warp_sum(sum) * inverse_width,
              gx_mean = warp_sum(product_sum) * inverse_width;
  for_packs<0>(a.width, [&](int, int64_t channel) {
    const Pack dy = load_pack(a.dy, begin + channel, end, a.fast);
    const Pack x = load_pack(a.x, begin + channel, end, a.fast), w = load_pack(a.w, channel, a.width, a.fast);
    Pack dx = load_pack(a.dx, begin + channel, end, a.fast);
    TRIREME_UNROLL
    for (int i = 0; i < kPack; ++i)
      dx.v[i] += rstd * (dy.v[i] * (a.offset + w.v[i]) - g_mean - (x.v[i] - mean) * rstd * gx_mean);
    store_pack(dx, a.dx, begin + channel, end, a.fast);
  });
}

/// Long rows: dx alone.
template <class T>
TRIREME_KERNEL norm_backward_input(NormBackwardArguments<T> a) {
  const int64_t row = static_cast<int64_t>(block_x()) * kRowsPerBlock + thread() / kWarp;
  if (row < a.rows) backward_row(a, row);
}

/// Long rows: the weights' gradients.
template <class T>
TRIREME_KERNEL norm_backward_weight(NormBackwardArguments<T> a) {
  struct Loaded {
    Raw<T> dy, x;
  };
  sum_chunk<2, 2>(
      a.rows, a.width, a.rows_per_warp,
      [&](int64_t row, int64_t channel) {
        const int64_t at = row * a.width + channel, end = (row + 1) * a.width;
        return Loaded{load_raw(a.dy, at, end, a.fast), load_raw(a.x, at, end, a.fast)};
      },
      [&](int64_t row, int64_t, const Loaded& loaded, Pack(&sums)[2]) {
        const Pack dy = unpack(loaded.dy), x = unpack(loaded.x);
        const float mean = a.mean.empty() ? 0 : a.mean[row], rstd = a.rstd[row];
        TRIREME_UNROLL
        for (int i = 0; i < kPack; ++i) {
          sums[0].v[i] += dy.v[i] * ((x.v[i] - mean) * rstd);
          sums[1].v[i] += dy.v[i];
        }
      },
      [&](int which, int64_t chunk, int64_t channel, float sum) {
        a.partials[(2 * chunk + which) * a.width + channel] = sum;
      });
}

struct NormPartialsArguments {
  Global<const float> partials;  ///< [count, 2, width]
  Global<float> dw, db;          ///< empty: not wanted
  int64_t count, width;
  bool adds;
};

TRIREME_KERNEL sum_norm_partials(NormPartialsArguments a) {
  const int64_t i = lane_column();
  const bool bias = i >= a.width, wanted = i < 2 * a.width && !(bias ? a.db : a.dw).empty();
  const float sum = sum_in_lanes(wanted ? a.count : 0, [&](int64_t p) { return a.partials[p * 2 * a.width + i]; });
  if (!wanted || thread() >= kWarp) return;
  const Global<float> out = bias ? a.db : a.dw;
  const int64_t at = bias ? i - a.width : i;
  out[at] = a.adds ? out[at] + sum : sum;
}

constexpr int64_t kLongestHeld = 1024;  ///< row in registers, in backward

/// Whether backward has registers for a row.
bool holds_row(DType dtype, int64_t width) { return width <= (dtype == DType::f32 ? 768 : kLongestHeld); }

/// f(integral constant): the packs per lane of a row.
template <class F>
void with_packs(int64_t packs, F f) {
  if (packs <= 1) return f(std::integral_constant<int, 1>());
  if (packs <= 2) return f(std::integral_constant<int, 2>());
  if (packs <= 3) return f(std::integral_constant<int, 3>());
  f(std::integral_constant<int, 4>());
}

template <class T>
NormArguments<T> norm_arguments(ConstView x, const RowNorm& norm, View y, View mean, View rstd, bool fast) {
  return {global<T>(x), global<T>(norm.w), global<T>(norm.b), global<T>(y), global<float>(mean), global<float>(rstd),
          x.rows(),     x.shape()[1],      norm.epsilon,      norm.offset,  norm.centered,       fast};
}

/// mean: empty for RMS norm.
void run_forward(Context& context, ConstView x, const RowNorm& norm, View y, View mean, View rstd) {
  const int64_t rows = x.rows(), width = x.shape()[1], per_lane = ceil_divide(width, kWarp * kPack);
  with_element(x.dtype(), [&](auto element) {
    using T = decltype(element);
    const auto arguments = norm_arguments<T>(x, norm, y, mean, rstd, packs(width, {x, norm.w, norm.b, y}));
    const auto run = [&](void (*kernel)(NormArguments<T>)) {
      launch("norm", gpu_stream(*context.stream), {ceil_divide(rows, kRowsPerBlock), 1, 1}, kRowsPerBlock * kWarp, 0,
             kernel, arguments);
    };
    if (per_lane > 8) return run(norm_forward<T, 0>);
    if (per_lane > 4) return run(norm_forward<T, 8>);
    with_packs(per_lane, [&](auto n) { run(norm_forward<T, decltype(n)::value>); });
  });
}

void run_backward(Context& context, ConstView dy, ConstView x, ConstView w, float offset, ConstView mean,
                  ConstView rstd, View dx, View dw, View db, Write write) {
  const ArenaScope scope(*context.scratch);
  const int64_t rows = x.rows(), width = x.shape()[1];
  const ColumnChunks chunks(rows, width);
  const bool held = holds_row(x.dtype(), width);
  const int64_t count = held ? kBackwardBlocks : chunks.count;
  const View partials = context.scratch->take(DType::f32, {count, 2, width});
  const gpu::Stream stream = gpu_stream(*context.stream);
  with_element(x.dtype(), [&](auto element) {
    using T = decltype(element);
    const int64_t per_warp = ceil_divide(rows, kBackwardBlocks * kBackwardWarps);
    const NormBackwardArguments<T> arguments{global<T>(dy),
                                             global<T>(x),
                                             global<T>(w),
                                             global<float>(mean),
                                             global<float>(rstd),
                                             global<T>(dx),
                                             global<float>(partials),
                                             rows,
                                             width,
                                             held ? per_warp : chunks.rows,
                                             offset,
                                             packs(width, {dy, x, w, dx})};
    if (held) {
      with_packs(ceil_divide(width, kWarp * kPack), [&](auto n) {
        constexpr int kPacks =
            std::is_same_v<T, float> && decltype(n)::value == 4 ? 3 : decltype(n)::value;  // holds_row()
        launch("norm_backward", stream, {kBackwardBlocks, 1, 1}, kBackwardWarps * kWarp,
               SharedMemory::bytes<float, 2 * kPacks * kWarp * kPack>, norm_backward<T, kPacks>, arguments);
      });
    } else {
      // First the weights' gradients: dx may be dy.
      launch("norm_backward_weight", stream, chunks.grid(), ColumnChunks::kThreads, ColumnChunks::shared_bytes<2>(),
             norm_backward_weight<T>, arguments);
      launch("norm_backward_input", stream, {ceil_divide(rows, kRowsPerBlock), 1, 1}, kRowsPerBlock * kWarp, 0,
             norm_backward_input<T>, arguments);
    }
  });
  const NormPartialsArguments arguments{
      global<float>(ConstView(partials)), global<float>(dw), global<float>(db), count, width,
      write != Write::overwrite};
  launch_lanes("sum_norm_partials", context, 2 * width, sum_norm_partials, arguments);
}

}  // namespace

size_t norm_scratch_bytes(int64_t rows, int64_t width) {
  return std::max(scratch_size(DType::f32, 2 * kBackwardBlocks * std::min(width, kLongestHeld)),
                  scratch_size(DType::f32, 2 * ColumnChunks(rows, width).count * width));
}

void CudaOps::do_layer_norm(Context& context, ConstView x, ConstView w, ConstView b, float eps, View y, View mean,
                            View rstd) {
  run_forward(context, x, {.w = w, .b = b, .epsilon = eps}, y, mean, rstd);
}

void CudaOps::do_dropout_add_norm(Context& context, ConstView x, ConstView residual, const Dropout& dropout,
                                  float factor, View sum, const RowNorm& norm, View y, View mean, View rstd) {
  const int64_t rows = x.rows(), width = x.shape()[1], per_lane = ceil_divide(width, kWarp * kPack);
  with_element(x.dtype(), [&](auto element) {
    using T = decltype(element);
    const bool fast = packs(width, {x, residual, sum, norm.w, norm.b, y});
    const AddedNormArguments<T> arguments{norm_arguments<T>(sum, norm, y, norm.centered ? mean : View(), rstd, fast),
                                          global<T>(x), global<T>(residual), global<T>(sum),
                                          DropArguments(dropout, factor)};
    const auto run = [&](void (*kernel)(AddedNormArguments<T>)) {
      launch("dropout_add_norm", gpu_stream(*context.stream), {ceil_divide(rows, kRowsPerBlock), 1, 1},
             kRowsPerBlock * kWarp, 0, kernel, arguments);
    };
    // Registers hold x and the residual, too: of 8 packs those of 16 bits alone.
    if (per_lane > (sizeof(T) == 2 ? 8 : 4)) return run(added_norm<T, 0>);
    if constexpr (sizeof(T) == 2)
      if (per_lane > 4) return run(added_norm<T, 8>);
    with_packs(per_lane, [&](auto n) { run(added_norm<T, decltype(n)::value>); });
  });
}

void CudaOps::do_layer_norm_backward(Context& context, ConstView dy, ConstView x, ConstView w, ConstView mean,
                                     ConstView rstd, View dx, View dw, View db, Write write) {
  run_backward(context, dy, x, w, 0, mean, rstd, dx, dw, db, write);
}

void CudaOps::do_rms_norm(Context& context, ConstView x, ConstView w, float offset, float eps, View y, View rstd) {
  run_forward(context, x, {.w = w, .centered = false, .offset = offset, .epsilon = eps}, y, {}, rstd);
}

void CudaOps::do_rms_norm_backward(Context& context, ConstView dy, ConstView x, ConstView w, float offset,
                                   ConstView rstd, View dx, View dw, Write write) {
  run_backward(context, dy, x, w, offset, {}, rstd, dx, dw, {}, write);
}

}  // namespace trireme
