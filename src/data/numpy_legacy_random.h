#pragma once
// numpy.random.RandomState(seed), bit for bit: Megatron and NeoX use it for the order of samples.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace trireme {

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
