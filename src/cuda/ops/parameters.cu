// Operators on flat arrays. Products and sums of AdamW and of norms are rounded one by one, in the CPU's order: the
// CPU's bits.

#include <algorithm>

#include "cuda/cuda_ops.h"
#include "cuda/launch.h"
#include "ops/element_sum.h"

namespace trireme {
namespace {

using namespace gpu;

struct AddArguments {
  Global<const float> x;
  Global<float> y;
  int64_t count;
  bool fast;
};

TRIREME_KERNEL add_arrays(AddArguments a) {
  const int64_t first = flat_pack();
  if (first >= a.count) return;
  const Pack x = load_pack(a.x, first, a.count, a.fast);
  Pack y = load_pack(a.y, first, a.count, a.fast);
  TRIREME_UNROLL
  for (int i = 0; i < kPack; ++i) y.v[i] += x.v[i];
  store_pack(y, a.y, first, a.count, a.fast);
}

template <class T>
struct SumPartsArguments {
  Global<const T> parts;
  Global<T> y;
  int64_t count, parts_count;
  bool fast;
};

template <class T>
TRIREME_KERNEL part_sums(SumPartsArguments<T> a) {
  const int64_t first = flat_pack();
  if (first >= a.count) return;
  Pack sum = load_pack(a.parts, first, a.count, a.fast);
  for (int64_t p = 1; p < a.parts_count; ++p) {
    const Pack part = load_pack(a.parts, p * a.count + first, (p + 1) * a.count, a.fast);
    TRIREME_UNROLL
    for (int i = 0; i < kPack; ++i) sum.v[i] += part.v[i];
  }
  store_pack(sum, a.y, first, a.count, a.fast);
}

template <class From, class To>
struct CastArguments {
  Global<const From> x;
  Global<To> y;
  int64_t count;
  bool fast;
};

template <class From, class To>
TRIREME_KERNEL cast_array(CastArguments<From, To> a) {
  const int64_t first = flat_pack();
  if (first >= a.count) return;
  const Pack x = load_pack(a.x, first, a.count, a.fast);
  if constexpr (!std::is_same_v<To, float>) {
    uint32_t words[4];
    TRIREME_UNROLL
    for (int i = 0; i < 4; ++i)
      words[i] = uint32_t{narrow_exactly<To>(x.v[2 * i]).bits} | uint32_t{narrow_exactly<To>(x.v[2 * i + 1]).bits}
                                                                     << 16;
    if (a.fast && first + kPack <= a.count) {
      store128(Bits128{{words[0], words[1], words[2], words[3]}}, a.y, first);
    } else {
      TRIREME_UNROLL
      for (int i = 0; i < kPack; ++i)
        if (first + i < a.count) a.y[first + i] = {static_cast<uint16_t>(words[i / 2] >> (16 * (i % 2)))};
    }
  } else {
    store_pack(x, a.y, first, a.count, a.fast);
  }
}

struct BytesArguments {
  Global<const uint8_t> x;  ///< empty: zeros
  Global<uint8_t> y;
  int64_t count;
  bool fast;
};

TRIREME_KERNEL copy_bytes(BytesArguments a) {
  const int64_t first = (static_cast<int64_t>(block_x()) * 256 + thread()) * 16;
  if (first >= a.count) return;
  if (a.fast && first + 16 <= a.count) {
    store128(a.x.empty() ? Bits128{} : load128(a.x, first), a.y, first);
  } else {
    for (int64_t i = first; i < a.count && i < first + 16; ++i) a.y[i] = a.x.empty() ? uint8_t{0} : a.x[i];
  }
}

void copy_or_zero(Context& context, ConstView x, View y) {
  const auto count = static_cast<int64_t>(y.bytes());
  const BytesArguments arguments{{static_cast<const uint8_t*>(x.data()), count},
                                 {static_cast<uint8_t*>(y.data()), count},
                                 count,
                                 packs(kPack, {x, y})};
  launch(x.empty() ? "zero" : "copy", gpu_stream(*context.stream), {ceil_divide(count, 256 * 16), 1, 1}, 256, 0,
         copy_bytes, arguments);
}

template <class From, class To>
void run_cast(Context& context, ConstView x, View y) {
  const CastArguments<From, To> arguments{global<From>(x), global<To>(y), x.count(), packs(kPack, {x, y})};
  launch("cast", gpu_stream(*context.stream), flat_grid(x.count()), 256, 0, cast_array<From, To>, arguments);
}

void convert(Context& context, ConstView x, View y) {
  if (x.count() == 0) return;
  if (x.dtype() == y.dtype()) return copy_or_zero(context, x, y);
  with_element(x.dtype(), [&](auto from) {
    with_element(y.dtype(), [&](auto to) { run_cast<decltype(from), decltype(to)>(context, x, y); });
  });
}

/// A small matrix and its place in a large one.
template <class T>
struct RowsArguments {
  Global<const T> x;
  Global<T> y;
  int64_t count, width, wide;  ///< elements and columns of the small matrix, columns of the large one
  int64_t column;
  RowPattern pattern;
  float factor;
  bool adds;

  TRIREME_DEVICE int64_t place(int64_t i) const {
    const int64_t row = i / width;
    return (row / pattern.count * pattern.stride + pattern.first + row % pattern.count) * wide + column + i % width;
  }
};

template <class T>
TRIREME_KERNEL place_elements(RowsArguments<T> a) {
  const int64_t i = static_cast<int64_t>(block_x()) * 256 + thread();
  if (i < a.count) a.y[a.place(i)] = narrow<T>(mul_rn(a.factor, widen(a.x[i])));
}

TRIREME_KERNEL take_elements(RowsArguments<float> a) {
  const int64_t i = static_cast<int64_t>(block_x()) * 256 + thread();
  if (i >= a.count) return;
  const float value = mul_rn(a.factor, a.x[a.place(i)]);
  a.y[i] = a.adds ? add_rn(a.y[i], value) : value;
}

struct NormsArguments {
  Global<const float> x;
  Global<double> values;
  int64_t count, chunks;
};

constexpr int kPartials = 16;

/// Half a warp per chunk: lane j holds partial j.
TRIREME_KERNEL chunk_norms(NormsArguments a) {
  const int64_t chunk = (static_cast<int64_t>(block_x()) * threads() + thread()) / kPartials;
  const int lane = thread() % kPartials;
  const int64_t first = chunk * kNormChunk, end = first + kNormChunk < a.count ? first + kNormChunk : a.count;
  double partial = 0;
  int64_t i = first + lane;
  constexpr int kAhead = 8;  // loads in flight
  for (; i + (kAhead - 1) * kPartials < end; i += kAhead * kPartials) {
    float x[kAhead];
    TRIREME_UNROLL
    for (int k = 0; k < kAhead; ++k) x[k] = a.x[i + k * kPartials];
    TRIREME_UNROLL
    for (int k = 0; k < kAhead; ++k)
      partial = add_rn(partial, mul_rn(static_cast<double>(x[k]), static_cast<double>(x[k])));
  }
  for (; i < end; i += kPartials)
    partial = add_rn(partial, mul_rn(static_cast<double>(a.x[i]), static_cast<double>(a.x[i])));
  double sum = 0;
  for (int j = 0; j < kPartials; ++j) sum = add_rn(sum, shuffle(partial, (thread() & kPartials) + j));
  if (lane == 0 && chunk < a.chunks) a.values[chunk] = sum;
}

template <class T>
struct ElementSumsArguments {
  Global<const T> x;
  Global<const int16_t> low;  ///< may be empty
  Global<int64_t> sums;
  int64_t count, chunks;
  ElementPlaces places;
};

/// element_term() of the bits of a value.
TRIREME_DEVICE uint64_t term_of(uint64_t place, uint32_t bits) {
  constexpr uint64_t kFirst = kElementRounds[0], kSecond = kElementRounds[1], kThird = kElementRounds[2];
  const auto round = [](uint64_t x, uint64_t a) {
    x ^= (x & 0xFFFFFFFF) * a;
    return x << 32 | x >> 32;
  };
  return round(round(round(place ^ bits * kElementSpread, kFirst), kSecond), kThird);
}

/// A warp per chunk. Sums of integers: their order does not matter.
template <class T>
TRIREME_KERNEL chunk_element_sums(ElementSumsArguments<T> a) {
  const int64_t chunk = (static_cast<int64_t>(block_x()) * threads() + thread()) / 32;
  const int64_t first = chunk * kNormChunk, end = first + kNormChunk < a.count ? first + kNormChunk : a.count;
  uint64_t sum = 0;
  for (int64_t i = first + thread() % 32; i < end; i += 32) {
    uint32_t bits = std::bit_cast<uint32_t>(widen(a.x[i]));
    if (!a.low.empty()) bits += static_cast<uint32_t>(int32_t{a.low[i]});
    sum += term_of(a.places.key + static_cast<uint64_t>(a.places.of(i)) * kElementStride, bits);
  }
  for (int mask = 16; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
  if (thread() % 32 == 0 && chunk < a.chunks) a.sums[chunk] = static_cast<int64_t>(sum);
}

/// What the weights are: f32; the upper 16 bits of the f32 masters, the lower ones apart; f16 beside their f32 masters.
enum class Masters : uint8_t { same, halves, beside };

struct AdamArguments {
  float rate, beta1, rest1, beta2, rest2, correction1, correction2, epsilon, decay, scale;
  Global<const float> grad;
  Global<float> m, v, masters;  ///< masters: but for `halves`
  Global<bf16_t> high;
  Global<int16_t> low;
  Global<f16_t> weights;
  int64_t count;
  bool fast;
};

TRIREME_DEVICE float adam_step(const AdamArguments& o, float grad, float& m, float& v, float p) {
  const float g = mul_rn(o.scale, grad);
  m = add_rn(mul_rn(o.beta1, m), mul_rn(o.rest1, g));
  v = add_rn(mul_rn(o.beta2, v), mul_rn(o.rest2, mul_rn(g, g)));
  p = sub_rn(p, mul_rn(o.decay, p));
  const float denominator = add_rn(sqrt_rn(div_rn(v, o.correction2)), o.epsilon);
  return sub_rn(p, mul_rn(o.rate, div_rn(div_rn(m, o.correction1), denominator)));
}

template <Masters kMasters>
TRIREME_KERNEL adamw_update(AdamArguments a) {
  const int64_t first = flat_pack();
  if (first >= a.count) return;
  const Pack grad = load_pack(a.grad, first, a.count, a.fast);
  Pack m = load_pack(a.m, first, a.count, a.fast), v = load_pack(a.v, first, a.count, a.fast), p;
  const bool whole = a.fast && first + kPack <= a.count;
  if constexpr (kMasters == Masters::halves) {
    Bits128 high, low;
    if (whole) {
      high = load128(a.high, first);
      low = load128(a.low, first);
    } else {
      high = low = Bits128{};
      for (int i = 0; i < kPack && first + i < a.count; ++i) {
        high.words[i / 2] |= uint32_t{a.high[first + i].bits} << (16 * (i % 2));
        low.words[i / 2] |= uint32_t{static_cast<uint16_t>(a.low[first + i])} << (16 * (i % 2));
      }
    }
    TRIREME_UNROLL
    for (int i = 0; i < kPack; ++i) {
      const uint32_t upper = high.words[i / 2] >> (16 * (i % 2)) << 16;
      const auto rest = static_cast<int16_t>(static_cast<uint16_t>(low.words[i / 2] >> (16 * (i % 2))));
      p.v[i] = std::bit_cast<float>(upper + static_cast<uint32_t>(int32_t{rest}));
    }
  } else {
    p = load_pack(a.masters, first, a.count, a.fast);
  }
  TRIREME_UNROLL
  for (int i = 0; i < kPack; ++i) p.v[i] = adam_step(a, grad.v[i], m.v[i], v.v[i], p.v[i]);
  store_pack(m, a.m, first, a.count, a.fast);
  store_pack(v, a.v, first, a.count, a.fast);
  if constexpr (kMasters == Masters::halves) {
    Bits128 high{}, low{};
    TRIREME_UNROLL
    for (int i = 0; i < kPack; ++i) {
      const auto bits = std::bit_cast<uint32_t>(p.v[i]);
      high.words[i / 2] |= (bits + 0x8000) >> 16 << (16 * (i % 2));
      low.words[i / 2] |= (bits & 0xFFFF) << (16 * (i % 2));
    }
    if (whole) {
      store128(high, a.high, first);
      store128(low, a.low, first);
    } else {
      for (int i = 0; i < kPack && first + i < a.count; ++i) {
        a.high[first + i] = {static_cast<uint16_t>(high.words[i / 2] >> (16 * (i % 2)))};
        a.low[first + i] = static_cast<int16_t>(static_cast<uint16_t>(low.words[i / 2] >> (16 * (i % 2))));
      }
    }
  } else {
    store_pack(p, a.masters, first, a.count, a.fast);
    if constexpr (kMasters == Masters::beside) store_pack(p, a.weights, first, a.count, a.fast);
  }
}

}  // namespace

void CudaOps::do_add(Context& context, ConstView x, View y) {
  const AddArguments arguments{global<float>(x), global<float>(y), x.count(), packs(kPack, {x, y})};
  launch("add", gpu_stream(*context.stream), flat_grid(x.count()), 256, 0, add_arrays, arguments);
}

void CudaOps::do_sum_parts(Context& context, ConstView parts, View y) {
  with_element(y.dtype(), [&](auto element) {
    using T = decltype(element);
    const SumPartsArguments<T> arguments{global<T>(parts), global<T>(y), y.count(), parts.rows(),
                                         packs(y.count(), {parts, y})};
    launch("sum_parts", gpu_stream(*context.stream), flat_grid(y.count()), 256, 0, part_sums<T>, arguments);
  });
}

void CudaOps::do_cast(Context& context, ConstView x, View y) { convert(context, x, y); }

void CudaOps::do_wire_cast(Context& context, ConstView x, View y) { convert(context, x, y); }

void CudaOps::do_zero(Context& context, View x) { copy_or_zero(context, {}, x); }

void CudaOps::do_place_rows(Context& context, ConstView x, const RowPattern& pattern, int64_t column, float factor,
                            View y) {
  if (x.count() == 0) return;
  with_element(x.dtype(), [&](auto element) {
    using T = decltype(element);
    const RowsArguments<T> arguments{global<T>(x), global<T>(y), x.count(), x.shape()[1], y.shape()[1],
                                     column,       pattern,      factor,    false};
    launch("place_rows", gpu_stream(*context.stream), {ceil_divide(x.count(), 256), 1, 1}, 256, 0, place_elements<T>,
           arguments);
  });
}

void CudaOps::do_take_rows(Context& context, ConstView x, const RowPattern& pattern, int64_t column, float factor,
                           View y, Write write) {
  if (y.count() == 0) return;
  const RowsArguments<float> arguments{global<float>(x), global<float>(y), y.count(),
                                       y.shape()[1],     x.shape()[1],     column,
                                       pattern,          factor,           write != Write::overwrite};
  launch("take_rows", gpu_stream(*context.stream), {ceil_divide(y.count(), 256), 1, 1}, 256, 0, take_elements,
         arguments);
}

void CudaOps::do_squared_norms(Context& context, ConstView x, View values) {
  const NormsArguments arguments{global<float>(x), global<double>(values), x.count(), values.count()};
  constexpr int kThreads = 64;
  launch("squared_norms", gpu_stream(*context.stream), {ceil_divide(values.count() * kPartials, kThreads), 1, 1},
         kThreads, 0, chunk_norms, arguments);
}

void CudaOps::do_element_sums(Context& context, ConstView x, ConstView low, const ElementPlaces& places, View sums) {
  with_element(x.dtype(), [&](auto element) {
    using T = decltype(element);
    const ElementSumsArguments<T> arguments{
        global<T>(x),          low.empty() ? Global<const int16_t>() : global<int16_t>(low),
        global<int64_t>(sums), x.count(),
        sums.count(),          places};
    constexpr int kThreads = 64;
    launch("element_sums", gpu_stream(*context.stream), {ceil_divide(sums.count() * 32, kThreads), 1, 1}, kThreads, 0,
           chunk_element_sums<T>, arguments);
  });
}

void CudaOps::do_adamw(Context& context, const AdamW& o, ConstView grad, View m, View v, View weights, View remainder) {
  const Masters masters = remainder.empty()                ? Masters::same
                          : weights.dtype() == DType::bf16 ? Masters::halves
                                                           : Masters::beside;
  const AdamArguments arguments{o.learning_rate,
                                o.beta1,
                                1.0f - o.beta1,
                                o.beta2,
                                1.0f - o.beta2,
                                o.correction1,
                                o.correction2,
                                o.epsilon,
                                o.learning_rate * o.weight_decay,
                                o.gradient_scale,
                                global<float>(grad),
                                global<float>(m),
                                global<float>(v),
                                masters == Masters::same     ? global<float>(weights)
                                : masters == Masters::beside ? global<float>(remainder)
                                                             : Global<float>(),
                                masters == Masters::halves ? global<bf16_t>(weights) : Global<bf16_t>(),
                                masters == Masters::halves ? global<int16_t>(remainder) : Global<int16_t>(),
                                masters == Masters::beside ? global<f16_t>(weights) : Global<f16_t>(),
                                grad.count(),
                                packs(kPack, {grad, m, v, weights, remainder})};
  launch("adamw", gpu_stream(*context.stream), flat_grid(grad.count()), 256, 0,
         masters == Masters::same     ? adamw_update<Masters::same>
         : masters == Masters::halves ? adamw_update<Masters::halves>
                                      : adamw_update<Masters::beside>,
         arguments);
}

}  // namespace trireme
