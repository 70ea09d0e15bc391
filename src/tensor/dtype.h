#pragma once
#include <cstddef>
#include <cstdint>

#include "base/names.h"

namespace trireme {

/// Element types of tensors. f64 is the reference backend's only floating type; bf16 is stored as its 16 bits.
enum class DType : uint8_t { f32, bf16, f64, f16, i64, i32, i16, u16, u8 };

/// 16-bit brain float: the high half of an f32.
struct bf16_t {
  uint16_t bits;
};

template <>
struct Names<DType> {
  static constexpr Named<DType> kAll[] = {{"f32", DType::f32}, {"bf16", DType::bf16}, {"f64", DType::f64},
                                          {"f16", DType::f16}, {"i64", DType::i64},   {"i32", DType::i32},
                                          {"i16", DType::i16}, {"u16", DType::u16},   {"u8", DType::u8}};
};

size_t size_of(DType dtype);

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<bf16_t> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<int16_t> {
  static constexpr DType value = DType::i16;
};
template <>
struct DTypeOf<uint16_t> {
  static constexpr DType value = DType::u16;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::u8;
};

/// Exact widening.
inline float to_float(bf16_t x) {
  const uint32_t bits = uint32_t{x.bits} << 16;
  float f;
  __builtin_memcpy(&f, &bits, sizeof f);
  return f;
}

/// Round to nearest, ties to even, NaN kept quiet: the cast of activations and of the gradient wire.
inline bf16_t to_bf16(float f) {
  uint32_t bits;
  __builtin_memcpy(&bits, &f, sizeof bits);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return {static_cast<uint16_t>(bits >> 16 | 0x40)};
  return {static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)};
}

/// Round to nearest, ties away from zero: the one cast wherever an f32 master exists, so that master = bf16 bits + an
/// int16 remainder exactly (docs/design.md, decision 11).
inline bf16_t to_bf16_master(float f) {
  uint32_t bits;
  __builtin_memcpy(&bits, &f, sizeof bits);
  return {static_cast<uint16_t>((bits + 0x8000) >> 16)};
}

}  // namespace trireme
