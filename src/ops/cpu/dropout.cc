// Residual + factor x dropout. Random words are made again in backward from the same counters, so no mask is stored.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/highway_targets.h"
#include "ops/cpu/team.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/dropout.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/cpu/philox-inl.h"
#include "ops/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

/// x scale in the lanes whose random word reaches the threshold, 0 in the others.
HWY_INLINE VecF32 keep(VecF32 x, const uint32_t* words, uint32_t threshold, float scale) {
  const TagU32 d;
  const auto dropped = hn::Lt(hn::LoadU(d, words), hn::Set(d, threshold));
  return hn::IfThenZeroElse(hn::RebindMask(TagF32(), dropped), hn::Mul(x, hn::Set(TagF32(), scale)));
}

/// y = residual + factor dropout(x), residual may be null.
template <class T>
void drop_rows(const T* x, const T* residual, const Dropout& dropout, float factor, T* y, int64_t width, Range rows) {
  constexpr int64_t kChunk = 512;  // channels: their random words stay in the first-level cache
  HWY_ALIGN uint32_t words[kChunk];
  static_assert(kChunk % (4 * kPhiloxBlocks) == 0);
  const auto threshold = static_cast<uint32_t>(std::llround(static_cast<double>(dropout.rate) * 0x1p32));
  const float scale = factor / (1.0f - dropout.rate);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const auto sample = static_cast<uint64_t>(dropout.sample.as<int64_t>()[row]);
    const auto position = static_cast<uint32_t>(dropout.position.as<int32_t>()[row]);
    for (int64_t first = 0; first < width; first += kChunk) {
      const int64_t n = std::min(kChunk, width - first), at = row * width + first;
      philox_blocks(dropout.key, static_cast<uint32_t>(first / 4), position, static_cast<uint32_t>(sample),
                    static_cast<uint32_t>(sample >> 32), (n + 3) / 4, words);
      for_each_vector(n, [&](int64_t i, auto lanes) HWY_ATTR {
        VecF32 v = keep(load_streaming(x + at + i, lanes), words + i, threshold, scale);
        if (residual) v = hn::Add(v, load_streaming(residual + at + i, lanes));
        store(v, y + at + i, lanes);
      });
    }
  }
}

/// y = residual + factor x.
template <class T>
void add_rows(const T* x, const T* residual, float factor, T* y, int64_t width, Range rows) {
  const int64_t at = rows.begin * width;
  const VecF32 by = hn::Set(TagF32(), factor);
  for_each_vector((rows.end - rows.begin) * width, [&](int64_t i, auto lanes) HWY_ATTR {
    const VecF32 base = load_streaming(residual + at + i, lanes);
    store(hn::MulAdd(load_streaming(x + at + i, lanes), by, base), y + at + i, lanes);
  });
}

/// y = factor x.
template <class T>
void multiply_rows(const T* x, float factor, T* y, int64_t width, Range rows) {
  const int64_t at = rows.begin * width;
  const VecF32 by = hn::Set(TagF32(), factor);
  for_each_vector((rows.end - rows.begin) * width, [&](int64_t i, auto lanes) HWY_ATTR {
    store(hn::Mul(load_streaming(x + at + i, lanes), by), y + at + i, lanes);
  });
}

template <class T>
void drop_or_add(ConstView x, ConstView residual, const Dropout& dropout, float factor, View y, Range rows) {
  const int64_t width = x.shape()[1];
  const T* base = residual.empty() ? nullptr : residual.as<T>();
  if (dropout.rate > 0) return drop_rows(x.as<T>(), base, dropout, factor, y.as<T>(), width, rows);
  if (base) return add_rows(x.as<T>(), base, factor, y.as<T>(), width, rows);
  if (factor != 1) return multiply_rows(x.as<T>(), factor, y.as<T>(), width, rows);
  if (x.data() != y.data())
    std::memcpy(y.as<T>() + rows.begin * width, x.as<T>() + rows.begin * width,
                static_cast<size_t>((rows.end - rows.begin) * width) * sizeof(T));
}

void dropout_rows(ConstView x, ConstView residual, const Dropout& dropout, float factor, View y, Range rows) {
  with_element(x.dtype(),
               [&](auto element) HWY_ATTR { drop_or_add<decltype(element)>(x, residual, dropout, factor, y, rows); });
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {

HWY_EXPORT(dropout_rows);

void CpuOps::do_dropout_add(Context& context, ConstView x, ConstView residual, const Dropout& dropout, View y,
                            float factor) {
  for_each_part(context.threads, [&](int part) {
    HWY_DYNAMIC_DISPATCH(dropout_rows)(x, residual, dropout, factor, y, share_of(x.rows(), part, context.threads));
  });
}

void CpuOps::do_dropout_backward(Context& context, ConstView dy, const Dropout& dropout, View dx, float factor) {
  do_dropout_add(context, dy, ConstView(), dropout, dx,
                 factor);  // the same map: a diagonal matrix is its own transpose
}

}  // namespace trireme
#endif
