#pragma once
// Counter-based random numbers: value = f(key, counter), without state to save or order. Philox4x32-10. Source: Salmon
// et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"; constants from its table 2.

#include <array>
#include <cstdint>

namespace trireme {

using PhiloxCounter = std::array<uint32_t, 4>;

/// Four 32-bit words for one counter under a 64-bit key.
constexpr PhiloxCounter philox(uint64_t key, PhiloxCounter c) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

/// Mixes words into one 64-bit key (SplitMix64 finaliser over each word in turn): distinct inputs give unrelated keys.
template <class... Words>
constexpr uint64_t mix_key(Words... words) {
  uint64_t h = 0x9E3779B97F4A7C15;
  for (uint64_t w : {static_cast<uint64_t>(words)...}) {
    h += w + 0x9E3779B97F4A7C15;
    h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9;
    h = (h ^ (h >> 27)) * 0x94D049BB133111EB;
    h ^= h >> 31;
  }
  return h;
}

/// Random stream over one key: draw i is a pure function of (key, i).
class RandomStream {
 public:
  explicit constexpr RandomStream(uint64_t key, uint64_t first = 0) : key_(key), index_(first) {}
  /// Next 64 random bits.
  constexpr uint64_t next() {
    const auto w = philox(key_, {static_cast<uint32_t>(index_), static_cast<uint32_t>(index_ >> 32), 0, 0});
    ++index_;
    return uint64_t{w[0]} | uint64_t{w[1]} << 32;
  }
  /// Uniform in [0, 1) with 53 bits.
  constexpr double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  /// Uniform in [0, bound) without bias that matters: 64-bit multiply-high, bias below bound / 2^64. bound > 0.
  constexpr uint64_t below(uint64_t bound) {
    __extension__ using u128 = unsigned __int128;
    return static_cast<uint64_t>((static_cast<u128>(next()) * bound) >> 64);
  }

 private:
  uint64_t key_, index_;
};

/// Standard normal for element `index` of the stream `key` (Box-Muller on one Philox block); pure function of both.
double normal_at(uint64_t key, uint64_t index);

}  // namespace trireme
