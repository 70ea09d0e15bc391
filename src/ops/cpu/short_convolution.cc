// Short causal convolutions of channels by themselves. Weights are turned so that a tap's channels follow each other. A
// row is made from the rows before it, which are in the caches. Backward goes through blocks of rows, whose lines stay
// in the second-level cache for all of their channels, with the gradients before silu of the present row and of the
// taps - 1 rows after it in registers.

#include "ops/cpu/column_sums.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/highway_targets.h"
#include "ops/cpu/team.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/short_convolution.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstddef>

#include "ops/cpu/activation-inl.h"

#ifndef TRIREME_SHORT_CONVOLUTION_CALL
#define TRIREME_SHORT_CONVOLUTION_CALL
namespace trireme {
/// Arguments of both ways. weights: [taps, groups x channels] f32.
struct ShortConvolution {
  ConstView x, offsets;
  const float* weights;
  int64_t groups, channels, stride, taps;  ///< stride: of a group of x
  bool silu;
  int64_t all() const { return groups * channels; }
};
}  // namespace trireme
#endif

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

/// The sums of channels c .. of a row, `before` rows of whose sequence precede it; older ones are in `window` (from its
/// end), or 0 if that is null.
template <class T, class Lanes>
HWY_INLINE VecF32 convolved(const ShortConvolution& call, int64_t row, int64_t before, const T* window, int64_t group,
                            int64_t c, Lanes lanes) {
  const T* x = call.x.as<T>() + (row * call.groups + group) * call.stride + c;
  const int64_t row_width = call.groups * call.stride, channel = group * call.channels + c;
  VecF32 sum = hn::Zero(TagF32());
  for (int64_t back = call.taps - 1; back >= 0; --back) {
    const float* w = call.weights + (call.taps - 1 - back) * call.all() + channel;
    if (back <= before) {
      sum = hn::MulAdd(load(w, lanes), load(x - back * row_width, lanes), sum);
    } else if (window) {
      const int64_t in_window = call.taps - 1 - (back - before);
      sum = hn::MulAdd(load(w, lanes), load(window + in_window * call.all() + channel, lanes), sum);
    }
  }
  return sum;
}

template <class T>
void convolve(const ShortConvolution& call, int64_t begin, const T* window, View y, Range rows) {
  for (int64_t row = rows.begin; row < rows.end; ++row)
    for (int64_t group = 0; group < call.groups; ++group) {
      T* out = y.as<T>() + row * call.all() + group * call.channels;
      for_each_vector(call.channels, [&](int64_t c, auto lanes) HWY_ATTR {
        const VecF32 sum = convolved(call, row, row - begin, window, group, c, lanes);
        store(call.silu ? Silu::value<T>(sum) : sum, out + c, lanes);
      });
    }
}

/// dx of the rows of a block, which are of one sequence, and their part of dw, [taps, groups x channels], or null.
/// kTaps: the number of taps if the compiler knows it, so that their vectors stay in registers; else 0.
template <class T, int kTaps>
HWY_INLINE void convolve_block_backward(const ShortConvolution& call, ConstView dy, Range sequence, Range rows, View dx,
                                        float* dw) {
  const TagF32 d;
  const int64_t row_width = call.groups * call.stride, all = call.all(), taps = kTaps > 0 ? kTaps : call.taps;
  for (int64_t group = 0; group < call.groups; ++group)
    for_each_vector(call.channels, [&](int64_t c, auto lanes) HWY_ATTR {
      const int64_t channel = group * call.channels + c;
      const auto before_silu = [&](int64_t row) HWY_ATTR {
        if (row >= sequence.end) return hn::Zero(d);
        const VecF32 g = load(dy.as<T>() + row * all + channel, lanes);
        if (!call.silu) return g;
        const VecF32 z = convolved<T>(call, row, row - sequence.begin, nullptr, group, c, lanes);
        return hn::Mul(g, Silu::derivative<T>(z));
      };
      constexpr int kMost = kTaps > 0 ? kTaps : static_cast<int>(kMostTaps);
      VecF32 later[kMost], sums[kMost], weights[kMost];  // gradients before silu of rows row, row + 1, ...
#pragma GCC unroll 8
      for (int k = 0; k < kMost; ++k) sums[k] = later[k] = weights[k] = hn::Zero(d);
#pragma GCC unroll 8
      for (int64_t k = 0; k < taps; ++k) {
        weights[k] = load(call.weights + (taps - 1 - k) * all + channel, lanes);
        if (k + 1 < taps) later[k] = before_silu(rows.begin + k);
      }
      for (int64_t row = rows.begin; row < rows.end; ++row) {
        later[taps - 1] = before_silu(row + taps - 1);
        const int64_t at = row * row_width + group * call.stride + c;
        const VecF32 value = load(call.x.as<T>() + at, lanes);
        VecF32 sum = hn::Zero(d);
#pragma GCC unroll 8
        for (int64_t k = 0; k < taps; ++k) {
          sum = hn::MulAdd(weights[k], later[k], sum);
          sums[k] = hn::MulAdd(later[k], value, sums[k]);
        }
        store(sum, dx.as<T>() + at, lanes);
#pragma GCC unroll 8
        for (int64_t k = 0; k + 1 < taps; ++k) later[k] = later[k + 1];
      }
#pragma GCC unroll 8
      for (int64_t k = 0; k < taps; ++k) {
        if (!dw) break;
        float* to = dw + (taps - 1 - k) * all + channel;
        store(hn::Add(sums[k], load(to, lanes)), to, lanes);
      }
    });
}

template <class T>
void convolve_backward(const ShortConvolution& call, ConstView dy, Range sequence, Range rows, View dx, float* dw) {
  constexpr int64_t kBlock = 32;
  for (int64_t row = rows.begin; row < rows.end; row += kBlock)
    call.taps == 4 ? convolve_block_backward<T, 4>(call, dy, sequence, {row, std::min(row + kBlock, rows.end)}, dx, dw)
                   : convolve_block_backward<T, 0>(call, dy, sequence, {row, std::min(row + kBlock, rows.end)}, dx, dw);
}

void convolve_any(const ShortConvolution& call, int64_t begin, const std::byte* window, View y, Range rows) {
  with_element(call.x.dtype(), [&](auto element) HWY_ATTR {
    convolve(call, begin, reinterpret_cast<const decltype(element)*>(window), y, rows);
  });
}
void convolve_backward_any(const ShortConvolution& call, ConstView dy, Range sequence, Range rows, View dx, float* dw) {
  with_element(call.x.dtype(),
               [&](auto element) HWY_ATTR { convolve_backward<decltype(element)>(call, dy, sequence, rows, dx, dw); });
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cstring>
#include <vector>

namespace trireme {

HWY_EXPORT(convolve_any);
HWY_EXPORT(convolve_backward_any);

namespace {

/// [groups x channels, 1, taps] as f32 [taps, groups x channels], in scratch.
const float* turned_weights(Context& context, ConstView w) {
  const int64_t all = w.shape()[0], taps = w.shape()[2];
  float* turned = context.scratch->take(DType::f32, {taps, all}).as<float>();
  for (int64_t c = 0; c < all; ++c)
    for (int64_t k = 0; k < taps; ++k)
      turned[k * all + c] =
          w.dtype() == DType::f32 ? w.as<float>()[c * taps + k] : to_float(w.as<bf16_t>()[c * taps + k]);
  return turned;
}

ShortConvolution call_of(Context& context, ConstView x, ConstView w, ConstView offsets, bool silu, int64_t channels) {
  return {.x = x,
          .offsets = offsets,
          .weights = turned_weights(context, w),
          .groups = x.shape()[1],
          .channels = channels,
          .stride = x.shape()[2],
          .taps = w.shape()[2],
          .silu = silu};
}

/// f(sequence, rows of it) for the parts of sequences in a share of the rows.
template <class F>
void for_each_sequence(ConstView offsets, Range share, F f) {
  const auto offset = offsets.values<int32_t>();
  for (size_t s = 0; s + 1 < offset.size(); ++s) {
    const Range sequence{offset[s], offset[s + 1]},
        rows{std::max(sequence.begin, share.begin), std::min(sequence.end, share.end)};
    if (rows.begin < rows.end) f(s, sequence, rows);
  }
}

}  // namespace

void CpuOps::do_short_convolution(Context& context, ConstView x, ConstView w, ConstView offsets, bool silu, View y) {
  const ArenaScope scope(*context.scratch);
  const ShortConvolution call = call_of(context, x, w, offsets, silu, y.shape()[2]);
  for_each_part(context.threads, [&](int part) {
    for_each_sequence(offsets, share_of(x.rows(), part, context.threads), [&](size_t, Range sequence, Range rows) {
      HWY_DYNAMIC_DISPATCH(convolve_any)(call, sequence.begin, nullptr, y, rows);
    });
  });
}

void CpuOps::do_short_convolution_backward(Context& context, ConstView dy, ConstView x, ConstView w, ConstView offsets,
                                           bool silu, View dx, View dw, Write write) {
  const ArenaScope scope(*context.scratch);
  const ShortConvolution call = call_of(context, x, w, offsets, silu, dy.shape()[2]);
  const int64_t all = call.all(), taps = call.taps;
  const ColumnSums sums(*context.scratch, context.threads, taps * all);
  const View turned = context.scratch->take(DType::f32, {taps * all});
  for_each_part(
      context.threads,
      [&](int part) {
        std::fill_n(sums.of(part), taps * all, 0.0f);
        for_each_sequence(offsets, share_of(x.rows(), part, context.threads), [&](size_t, Range sequence, Range rows) {
          HWY_DYNAMIC_DISPATCH(convolve_backward_any)
          (call, dy, sequence, rows, dx, dw.empty() ? nullptr : sums.of(part));
        });
      },
      [&](int part) { sums.finish(part, turned, Write::overwrite); });
  if (dw.empty()) return;
  float* to = dw.as<float>();
  for (int64_t c = 0; c < all; ++c)
    for (int64_t k = 0; k < taps; ++k) {
      const float sum = turned.as<float>()[k * all + c];
      to[c * taps + k] = write == Write::overwrite ? sum : to[c * taps + k] + sum;
    }
}

void CpuOps::do_short_convolution_cached(Context& context, ConstView x, ConstView w, ConstView offsets, bool silu,
                                         ConstView past, View window, View y) {
  const ArenaScope scope(*context.scratch);
  const ShortConvolution call = call_of(context, x, w, offsets, silu, y.shape()[2]);
  const int64_t kept = call.taps - 1, all = call.all();
  const size_t size = size_of(x.dtype());
  std::vector<std::byte> last(static_cast<size_t>(kept * all) * size);
  for_each_sequence(offsets, {0, x.rows()}, [&](size_t s, Range sequence, Range rows) {
    std::byte* own = static_cast<std::byte*>(window.data()) + s * last.size();
    const bool starts = past.as<int32_t>()[s] == 0;
    HWY_DYNAMIC_DISPATCH(convolve_any)(call, sequence.begin, starts ? nullptr : own, y, rows);
    const int64_t length = sequence.end - sequence.begin;
    for (int64_t i = 0; i < kept; ++i) {
      const int64_t row = length - kept + i;  // of the sequence's new ones; before them those of the window
      std::byte* to = last.data() + static_cast<size_t>(i * all) * size;
      if (row < 0) {
        if (starts)
          std::memset(to, 0, static_cast<size_t>(all) * size);
        else
          std::memcpy(to, own + static_cast<size_t>((row + kept) * all) * size, static_cast<size_t>(all) * size);
        continue;
      }
      const auto* from = static_cast<const std::byte*>(x.data()) +
                         static_cast<size_t>((sequence.begin + row) * call.groups * call.stride) * size;
      for (int64_t group = 0; group < call.groups; ++group)
        std::memcpy(to + static_cast<size_t>(group * call.channels) * size,
                    from + static_cast<size_t>(group * call.stride) * size, static_cast<size_t>(call.channels) * size);
    }
    std::memcpy(own, last.data(), last.size());
  });
}

}  // namespace trireme
#endif
