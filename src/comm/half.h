#pragma once
// IEEE binary16, which the compilers of Debian 12 do not have in C++.

#include <bit>
#include <cstdint>

namespace trireme {

struct half_t {
  uint16_t bits;
};

/// Exact widening.
inline float to_float(half_t x) {
  const uint32_t sign = uint32_t{x.bits & 0x8000u} << 16, magnitude = x.bits & 0x7FFFu;
  if (magnitude >= 0x7C00) return std::bit_cast<float>(sign | 0x7F800000u | (magnitude & 0x3FF) << 13);
  // Scaling by 2^112 moves the exponent's bias and normalizes subnormal values.
  const float scaled = std::bit_cast<float>(magnitude << 13) * std::bit_cast<float>(uint32_t{239} << 23);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) | sign);
}

/// Round to nearest, ties to even; too large becomes infinity.
inline half_t to_half(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return {static_cast<uint16_t>(sign | 0x7E00)};
  if (magnitude >= 0x477FF000) return {static_cast<uint16_t>(sign | 0x7C00)};  // 65520 and above
  if (magnitude < 0x38800000) {  // subnormal: adding 0.5 leaves the rounded multiple of 2^-24 in the low bits
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3F000000))};
  }
  return {static_cast<uint16_t>(sign | ((magnitude - 0x38000000 + 0xFFF + (magnitude >> 13 & 1)) >> 13))};
}

}  // namespace trireme
