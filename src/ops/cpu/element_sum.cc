// Terms of one element per 64-bit lane of a vector at a time.

#include "ops/element_sum.h"

#include <cstring>

#include "ops/cpu/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/element_sum.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

/// Elements from `from` on, one by one.
uint64_t sum_one_by_one(uint64_t place, const float* values, size_t from, size_t count) {
  uint64_t sum = 0;
  for (size_t i = from; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, values + i, sizeof bits);
    sum += element_term(place + i * kElementStride, bits);
  }
  return sum;
}

#if HWY_TARGET == HWY_SCALAR

uint64_t sum_of_terms(uint64_t place, const float* values, size_t count) {
  return sum_one_by_one(place, values, 0, count);
}

#else

namespace hn = hwy::HWY_NAMESPACE;
using Tag64 = hn::ScalableTag<uint64_t>;
using Tag32 = hn::Repartition<uint32_t, Tag64>;  // both halves of each lane
using TagBits = hn::Rebind<uint32_t, Tag64>;     // an element for each lane
using Vec64 = hn::Vec<Tag64>;
constexpr size_t kLanes64 = HWY_LANES(uint64_t);

/// The lower halves times a 32-bit number.
HWY_INLINE Vec64 times(Vec64 x, uint64_t a) {
  return hn::MulEven(hn::BitCast(Tag32(), x), hn::Set(Tag32(), static_cast<uint32_t>(a)));
}

HWY_INLINE Vec64 terms(Vec64 places, const float* values) {
  const auto bits = hn::BitCast(TagBits(), hn::LoadU(hn::Rebind<float, Tag64>(), values));
  Vec64 x = hn::Xor(places, times(hn::PromoteTo(Tag64(), bits), kElementSpread));
  for (const uint64_t a : kElementRounds) {
    x = hn::Xor(x, times(x, a));
    x = hn::BitCast(Tag64(), hn::Shuffle2301(hn::BitCast(Tag32(), x)));
  }
  return x;
}

uint64_t sum_of_terms(uint64_t place, const float* values, size_t count) {
  constexpr size_t kStep = 2 * kLanes64;  // two sums: a chain of multiplications leaves the unit idle
  const Tag64 d;
  HWY_ALIGN uint64_t lanes[kStep];
  for (size_t i = 0; i < kStep; ++i) lanes[i] = place + i * kElementStride;
  Vec64 places = hn::Load(d, lanes), more = hn::Load(d, lanes + kLanes64), sum = hn::Zero(d), other = hn::Zero(d);
  const Vec64 stride = hn::Set(d, kStep * kElementStride);
  size_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    sum = hn::Add(sum, terms(places, values + i));
    other = hn::Add(other, terms(more, values + i + kLanes64));
    places = hn::Add(places, stride);
    more = hn::Add(more, stride);
  }
  hn::Store(hn::Add(sum, other), d, lanes);
  uint64_t total = sum_one_by_one(place, values, i, count);
  for (size_t lane = 0; lane < kLanes64; ++lane) total += lanes[lane];
  return total;
}

#endif

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {

HWY_EXPORT(sum_of_terms);

uint64_t element_sum(uint64_t key, uint64_t first, std::span<const float> values) {
  return HWY_DYNAMIC_DISPATCH(sum_of_terms)(key + first * kElementStride, values.data(), values.size());
}

}  // namespace trireme
#endif
