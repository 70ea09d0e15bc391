#pragma once
// numpy's random numbers, bit for bit, because published data splits were made with them.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace trireme {

/// numpy.random.default_rng(seed): SeedSequence into PCG64 (XSL-RR 128/64).
/// Sources: O'Neill 2014, section 6.3.3; numpy/random/bit_generator.pyx (SeedSequence) for the constants.
class NumpyGenerator {
 public:
  explicit NumpyGenerator(uint64_t seed);

  uint64_t next64();
  /// Half of a 64-bit draw, the low one first.
  uint32_t next32();
  /// Uniform in [0, largest], by masking and rejection as numpy's shuffles do it.
  uint64_t interval(uint64_t largest);
  /// Generator.permutation(n). n * 8 bytes.
  std::vector<uint64_t> permutation(uint64_t n);

 private:
  __extension__ using u128 = unsigned __int128;
  u128 state_ = 0, increment_ = 0;
  bool has_half_ = false;
  uint32_t half_ = 0;
};

// numpy.random.RandomState(seed), bit for bit: Megatron and NeoX use it for the order of samples.

/// MT19937 with the seeding and the shuffle of numpy's RandomState.
/// Source: Matsumoto and Nishimura 1998, with the initialisation of 2002.
class NumpyRandomState {
 public:
  /// Seeds are below 2^32. Throws Error::usage for larger ones.
  explicit NumpyRandomState(uint64_t seed);

  uint32_t next32();
  /// Uniform in [0, largest], by masking and rejection.
  uint64_t interval(uint64_t largest);
  /// RandomState.shuffle of a one-dimensional array.
  template <class T>
  void shuffle(std::span<T> values) {
    for (size_t i = values.size(); i-- > 1;) std::swap(values[i], values[interval(i)]);
  }

 private:
  static constexpr size_t kWords = 624, kShift = 397;
  void refill();

  std::array<uint32_t, kWords> state_;
  size_t next_ = kWords;
};

}  // namespace trireme
