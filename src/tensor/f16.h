#pragma once
// 16-bit floats of IEEE 754, the activation type of some GPU recipes: 10 bits of fraction, at most 65,504, multiples of
// 2^-24 below 2^-14. Values are widened to be computed with.

#include <bit>

#include "tensor/dtype.h"

namespace trireme {

struct f16_t {
  uint16_t bits;
};

template <>
struct DTypeOf<f16_t> {
  static constexpr DType value = DType::f16;
};

/// Exact widening.
inline float to_float(f16_t x) {
  const uint32_t sign = (uint32_t{x.bits} & 0x8000) << 16, magnitude = (uint32_t{x.bits} & 0x7FFF) << 13;
  if (magnitude >= uint32_t{0x7C00} << 13) return std::bit_cast<float>(sign | 0x70000000 | magnitude);
  // Exponents of f16 begin 112 below those of f32.
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f));
}

/// Round to nearest, ties to even; from 65,520 on infinity; NaN kept quiet, with its upper bits.
inline f16_t to_f16(float f) {
  const auto bits = std::bit_cast<uint32_t>(f);
  const uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
  uint32_t rounded = 0;
  if (magnitude > 0x7F800000) {
    rounded = 0x7E00 | (magnitude >> 13 & 0x1FF);
  } else if (magnitude >= 0x477FF000) {
    rounded = 0x7C00;
  } else if (magnitude < 0x38800000) {  // the last place of 0.5 is 2^-24
    rounded = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3F000000;
  } else {
    rounded = (magnitude - 0x38000000 + 0xFFF + (magnitude >> 13 & 1)) >> 13;
  }
  return {static_cast<uint16_t>(sign | rounded)};
}

}  // namespace trireme
