// Philox4x32-10 (base/rng.h) for many counters at once, compiled once per instruction set.

#if defined(TRIREME_PHILOX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_PHILOX_INL_H
#undef TRIREME_PHILOX_INL_H
#else
#define TRIREME_PHILOX_INL_H
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "base/rng.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

/// words[4 i + j] = philox(key, {first + i, c1, c2, c3})[j] for i in [0, blocks). Writes whole vectors: words has room
/// for blocks rounded up to a multiple of kPhiloxBlocks.
constexpr int64_t kPhiloxBlocks = 16;

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void philox_blocks(uint64_t key, uint32_t first, uint32_t c1, uint32_t c2, uint32_t c3, int64_t blocks,
                              uint32_t* words) {
  for (int64_t i = 0; i < blocks; ++i) {
    const PhiloxCounter w = philox(key, {first + static_cast<uint32_t>(i), c1, c2, c3});
    for (size_t j = 0; j < 4; ++j) words[4 * i + static_cast<int64_t>(j)] = w[j];
  }
}
#else
/// The four words of a counter are in the low halves of 64-bit lanes; the high halves hold garbage that the 32-bit
/// multiplication ignores.
struct PhiloxState {
  using Tag = hwy::HWY_NAMESPACE::ScalableTag<uint64_t>;
  using Vec = hwy::HWY_NAMESPACE::Vec<Tag>;
  Vec c0, c1, c2, c3;

  HWY_INLINE void round(Vec k0, Vec k1) {
    namespace hn = hwy::HWY_NAMESPACE;
    const hn::Repartition<uint32_t, Tag> d32;
    const Vec p0 = hn::MulEven(hn::BitCast(d32, c0), hn::Set(d32, 0xD2511F53));
    const Vec p1 = hn::MulEven(hn::BitCast(d32, c2), hn::Set(d32, 0xCD9E8D57));
    c0 = hn::Xor3(hn::ShiftRight<32>(p1), c1, k0);
    c2 = hn::Xor3(hn::ShiftRight<32>(p0), c3, k1);
    c1 = p1;
    c3 = p0;
  }
  HWY_INLINE void write(uint32_t* words) const {
    namespace hn = hwy::HWY_NAMESPACE;
    const Tag d;
    const Vec low = hn::Set(d, 0xFFFFFFFF);
    const Vec c01 = hn::Or(hn::And(c0, low), hn::ShiftLeft<32>(c1));
    const Vec c23 = hn::Or(hn::And(c2, low), hn::ShiftLeft<32>(c3));
    hn::StoreInterleaved2(c01, c23, d, reinterpret_cast<uint64_t*>(words));
  }
};

/// kStates vectors of counters from `first` on, together: the rounds of one fill the wait for the multiplications of
/// the others.
template <size_t kStates>
HWY_INLINE void philox_vectors(uint64_t key, uint64_t first, uint32_t c1, uint32_t c2, uint32_t c3, uint32_t* words) {
  namespace hn = hwy::HWY_NAMESPACE;
  using State = PhiloxState;
  const State::Tag d;
  const size_t lanes = hn::Lanes(d);
  const State::Vec one = hn::Set(d, c1), two = hn::Set(d, c2), three = hn::Set(d, c3);
  State states[kStates];
#pragma GCC unroll 4
  for (size_t s = 0; s < kStates; ++s) states[s] = {hn::Iota(d, first + s * lanes), one, two, three};
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const State::Vec key0 = hn::Set(d, k0), key1 = hn::Set(d, k1);
#pragma GCC unroll 4
    for (State& state : states) state.round(key0, key1);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
#pragma GCC unroll 4
  for (size_t s = 0; s < kStates; ++s) states[s].write(words + 4 * s * lanes);
}

HWY_INLINE void philox_blocks(uint64_t key, uint32_t first, uint32_t c1, uint32_t c2, uint32_t c3, int64_t blocks,
                              uint32_t* words) {
  const auto lanes = static_cast<int64_t>(hwy::HWY_NAMESPACE::Lanes(PhiloxState::Tag()));
  int64_t i = 0;
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON  // 32 registers
  for (; i + 4 * lanes <= blocks; i += 4 * lanes)
    philox_vectors<4>(key, uint64_t{first} + static_cast<uint64_t>(i), c1, c2, c3, words + 4 * i);
#endif
  for (; i < blocks; i += 2 * lanes)
    philox_vectors<2>(key, uint64_t{first} + static_cast<uint64_t>(i), c1, c2, c3, words + 4 * i);
}
#endif

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
