#pragma once
// A sum of f64 values that is exact until it is rounded once: the same bits in any order and over any number of ranks.

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

namespace trireme {

class ExactSum {
 public:
  /// 32 bits each of multiples of 2^-1074, the least first, and one for carries; then counts of inf, -inf and NaN.
  static constexpr size_t kDigits = 67 + 3;

  ExactSum() = default;
  /// From the digits of sums, added element by element.
  explicit ExactSum(std::span<const int64_t, kDigits> digits) { std::ranges::copy(digits, digits_.begin()); }
  /// At most 2^31 values in all, those of other ranks included.
  void add(double value);
  std::span<const int64_t, kDigits> digits() const { return digits_; }
  /// Rounded to nearest. NaN if a value is, or for infinities of both signs.
  double value() const;

 private:
  std::array<int64_t, kDigits> digits_{};
};

}  // namespace trireme
