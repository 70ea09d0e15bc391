#include "base/exact_sum.h"

#include <bit>
#include <cmath>
#include <limits>

namespace trireme {
namespace {

constexpr size_t kNumber = 67;  // digits of the number itself
constexpr size_t kInfinite = kNumber, kNegativeInfinite = kNumber + 1, kNan = kNumber + 2;
constexpr int kLeast = -1074;  // exponent of the least value above 0

/// Every digit but the last to [0, 2^32); the last one has the sign.
void carry(std::array<int64_t, ExactSum::kDigits>& digits) {
  for (size_t i = 0; i + 1 < kNumber; ++i) {
    digits[i + 1] += digits[i] >> 32;
    digits[i] &= 0xffffffff;
  }
}

}  // namespace

void ExactSum::add(double value) {
  if (!std::isfinite(value)) {
    ++digits_[std::isnan(value) ? kNan : value > 0 ? kInfinite : kNegativeInfinite];
    return;
  }
  const auto bits = std::bit_cast<uint64_t>(value);
  const auto exponent = static_cast<int>(bits >> 52 & 0x7ff);
  uint64_t mantissa = bits & ((uint64_t{1} << 52) - 1);
  if (exponent > 0) mantissa |= uint64_t{1} << 52;
  const int shift = std::max(exponent - 1, 0), rest = shift % 32;
  const uint64_t low = mantissa << rest, high = rest > 0 ? mantissa >> (64 - rest) : 0;
  const int64_t sign = value < 0 ? -1 : 1;
  int64_t* digit = &digits_[static_cast<size_t>(shift / 32)];
  digit[0] += sign * static_cast<int64_t>(low & 0xffffffff);
  digit[1] += sign * static_cast<int64_t>(low >> 32);
  digit[2] += sign * static_cast<int64_t>(high);
}

double ExactSum::value() const {
  if (digits_[kNan] > 0 || (digits_[kInfinite] > 0 && digits_[kNegativeInfinite] > 0))
    return std::numeric_limits<double>::quiet_NaN();
  if (digits_[kInfinite] > 0 || digits_[kNegativeInfinite] > 0) return digits_[kInfinite] > 0 ? HUGE_VAL : -HUGE_VAL;
  auto digits = digits_;
  carry(digits);
  const bool negative = digits[kNumber - 1] < 0;
  if (negative) {
    for (size_t i = 0; i < kNumber; ++i) digits[i] = -digits[i];
    carry(digits);
  }
  size_t top = kNumber - 1;
  while (top > 0 && digits[top] == 0) --top;
  const auto digit = [&](size_t below) { return below > top ? 0 : static_cast<uint64_t>(digits[top - below]); };
  // The 64 highest bits, the last of which stands for all below it: more than the 53 that are kept.
  uint64_t bits = digit(0) << 32 | digit(1);
  if (bits == 0) return 0;
  const int shift = std::countl_zero(bits);
  const uint64_t next = digit(2) << shift;
  bits = bits << shift | next >> 32;
  bool below = (next & 0xffffffff) != 0;
  for (size_t i = 3; i <= top && !below; ++i) below = digit(i) != 0;
  const double rounded =
      std::ldexp(static_cast<double>(bits | uint64_t{below}), 32 * (static_cast<int>(top) - 1) + kLeast - shift);
  return negative ? -rounded : rounded;
}

}  // namespace trireme
