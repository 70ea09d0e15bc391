// Vector building blocks of the CPU kernels, compiled once per instruction set (so no #pragma once: the guard is
// toggled by hwy/foreach_target.h). Activations are read as f32 vectors whatever their type and rounded when stored.

#if defined(TRIREME_VECTOR_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_VECTOR_INL_H
#undef TRIREME_VECTOR_INL_H
#else
#define TRIREME_VECTOR_INL_H
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "ops/cpu/isa.h"
#include "ops/cpu/native_bf16.h"
#include "tensor/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using TagF32 = hn::ScalableTag<float>;
using TagU32 = hn::Rebind<uint32_t, TagF32>;
using TagI32 = hn::Rebind<int32_t, TagF32>;
using TagU16 = hn::Rebind<uint16_t, TagF32>;
using VecF32 = hn::Vec<TagF32>;
using VecU32 = hn::Vec<TagU32>;
constexpr int64_t kLanes = HWY_LANES(float);

/// How many lanes of a vector are meant: all of them, or, in the last vector of a row, a count below kLanes.
struct AllLanes {};

/// f(i, AllLanes) for each whole vector of [0, n), then f(i, count) for the rest.
template <class F>
HWY_INLINE void for_each_vector(int64_t n, F&& f) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) f(i, AllLanes{});
  if (i < n) f(i, n - i);
}

// ---- bf16

HWY_INLINE VecF32 widen(hn::Vec<TagU16> bits) {
  return hn::BitCast(TagF32(), hn::ShiftLeft<16>(hn::PromoteTo(TagU32(), bits)));
}

/// Rounds to the nearest bf16, ties to even, NaN kept quiet: to_bf16() of every lane.
HWY_INLINE hn::Vec<TagU16> narrow(VecF32 v) {
  const TagU32 d;
  const VecU32 bits = hn::BitCast(d, v);
  const VecU32 high = hn::ShiftRight<16>(bits);
  const VecU32 odd = hn::And(high, hn::Set(d, 1));
  const VecU32 rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7FFF))));
  const VecU32 quiet = hn::Or(high, hn::Set(d, 0x40));
  return hn::TruncateTo(TagU16(), hn::IfThenElse(hn::RebindMask(d, hn::IsNaN(v)), quiet, rounded));
}

#if HWY_TARGET == HWY_AVX3
constexpr bool kCanHaveDots = true;
/// narrow() in one instruction of AVX512-BF16. Written as assembly because it is not part of the set that this code is
/// compiled for: callers ask cpu_isa() first.
HWY_INLINE hn::Vec<TagU16> narrow_fast(VecF32 v) {
  hn::Vec<TagU16> result;
  asm("vcvtneps2bf16 %1, %0" : "=v"(result.raw) : "v"(v.raw));
  return result;
}
#else
constexpr bool kCanHaveDots = false;
HWY_INLINE hn::Vec<TagU16> narrow_fast(VecF32 v) { return narrow(v); }
#endif

/// As elements of the first argument's type.
HWY_INLINE hn::Vec<TagU16> narrow_as(bf16_t, VecF32 v) { return narrow(v); }
HWY_INLINE hn::Vec<TagU16> narrow_as(native_bf16_t, VecF32 v) { return narrow_fast(v); }

/// f(T()), T being the element type of kernels on tensors of this type: float, bf16_t or native_bf16_t.
template <class F>
HWY_INLINE void with_element(DType dtype, F&& f) {
  if (dtype != DType::bf16) return f(float());
  if constexpr (kCanHaveDots)
    if (cpu_isa() >= Isa::avx512bf16_fma) return f(native_bf16_t());
  f(bf16_t());
}

// ---- memory

HWY_INLINE float as_float(float x) { return x; }
HWY_INLINE float as_float(bf16_t x) { return to_float(x); }
template <class T>
HWY_INLINE T from_float(float x) {
  if constexpr (is_bf16<T>)
    return T{to_bf16(x)};
  else
    return x;
}

HWY_INLINE VecF32 load(const float* p, AllLanes) { return hn::LoadU(TagF32(), p); }
HWY_INLINE VecF32 load(const bf16_t* p, AllLanes) {
  return widen(hn::LoadU(TagU16(), reinterpret_cast<const uint16_t*>(p)));
}
/// The first `count` lanes from memory, the others `rest`.
HWY_INLINE VecF32 load(const float* p, int64_t count, float rest = 0) {
  HWY_ALIGN float buffer[kLanes];
  hn::Store(hn::Set(TagF32(), rest), TagF32(), buffer);
  std::memcpy(buffer, p, static_cast<size_t>(count) * sizeof *p);
  return hn::Load(TagF32(), buffer);
}
HWY_INLINE VecF32 load(const bf16_t* p, int64_t count, float rest = 0) {
  HWY_ALIGN float buffer[kLanes];
  hn::Store(hn::Set(TagF32(), rest), TagF32(), buffer);
  for (int64_t i = 0; i < count; ++i) buffer[i] = to_float(p[i]);
  return hn::Load(TagF32(), buffer);
}
template <class T>
HWY_INLINE VecF32 load(const T* p, AllLanes all, float /*rest*/) {
  return load(p, all);
}

/// Prefetches 2 KiB after p, which may be past the end of the array.
template <class T>
HWY_INLINE void prefetch_ahead(const T* p) {
  constexpr int64_t kAhead = 2048 / static_cast<int64_t>(sizeof(T));
  hwy::Prefetch(p + kAhead);
}
/// load() in a loop that goes through memory in rising order. With arithmetic between its loads, a CPU runs ahead of
/// too few of them to keep memory busy.
template <class T, class Lanes>
HWY_INLINE auto load_streaming(const T* p, Lanes lanes) {
  prefetch_ahead(p);
  return load(p, lanes);
}

HWY_INLINE void store(VecF32 v, float* p, AllLanes) { hn::StoreU(v, TagF32(), p); }
HWY_INLINE void store(VecF32 v, bf16_t* p, AllLanes) {
  hn::StoreU(narrow(v), TagU16(), reinterpret_cast<uint16_t*>(p));
}
HWY_INLINE void store(VecF32 v, native_bf16_t* p, AllLanes) {
  hn::StoreU(narrow_fast(v), TagU16(), reinterpret_cast<uint16_t*>(p));
}
HWY_INLINE void store(VecF32 v, float* p, int64_t count) {
  HWY_ALIGN float buffer[kLanes];
  hn::Store(v, TagF32(), buffer);
  std::memcpy(p, buffer, static_cast<size_t>(count) * sizeof *p);
}
HWY_INLINE void store(VecF32 v, bf16_t* p, int64_t count) {
  HWY_ALIGN float buffer[kLanes];
  hn::Store(v, TagF32(), buffer);
  for (int64_t i = 0; i < count; ++i) p[i] = to_bf16(buffer[i]);
}

// ---- reductions

HWY_INLINE float sum_lanes(VecF32 v) { return hn::GetLane(hn::SumOfLanes(TagF32(), v)); }
HWY_INLINE float max_lanes(VecF32 v) { return hn::GetLane(hn::MaxOfLanes(TagF32(), v)); }

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void sum_lanes_of_four(VecF32 a, VecF32 b, VecF32 c, VecF32 d, float* to) {
  to[0] = sum_lanes(a), to[1] = sum_lanes(b), to[2] = sum_lanes(c), to[3] = sum_lanes(d);
}
#else
/// v itself, or the sum of its blocks of four lanes.
template <class D>
HWY_INLINE hn::Vec<hn::FixedTag<float, 4> > sum_blocks(D, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(D()) <= 4) {
    return v;
  } else {
    const hn::Half<D> half;
    return sum_blocks(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}

/// to[i] = sum_lanes() of the i-th of four vectors, but for the order of additions: a third of the instructions.
HWY_INLINE void sum_lanes_of_four(VecF32 a, VecF32 b, VecF32 c, VecF32 d, float* to) {
  const auto merge = [](VecF32 v, VecF32 w) HWY_ATTR {
    return hn::Add(hn::InterleaveLower(TagF32(), v, w), hn::InterleaveUpper(TagF32(), v, w));
  };
  const VecF32 blocks = merge(merge(a, c), merge(b, d));  // of each block the sums of a, b, c, d
  hn::StoreU(sum_blocks(TagF32(), blocks), hn::FixedTag<float, 4>(), to);
}
#endif

/// The lanes' sums of f(i, lanes) over [0, n) with four running vectors, so that additions do not wait for each other
/// and rounding errors stay small. f gives 0 in the lanes that are not meant.
template <class F>
HWY_INLINE VecF32 vector_sum_over(int64_t n, F&& f) {
  VecF32 s0 = hn::Zero(TagF32()), s1 = s0, s2 = s0, s3 = s0;
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    s0 = hn::Add(s0, f(i, AllLanes{}));
    s1 = hn::Add(s1, f(i + kLanes, AllLanes{}));
    s2 = hn::Add(s2, f(i + 2 * kLanes, AllLanes{}));
    s3 = hn::Add(s3, f(i + 3 * kLanes, AllLanes{}));
  }
  for (; i + kLanes <= n; i += kLanes) s0 = hn::Add(s0, f(i, AllLanes{}));
  if (i < n) s1 = hn::Add(s1, f(i, n - i));
  return hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
}
template <class F>
HWY_INLINE float sum_over(int64_t n, F&& f) {
  return sum_lanes(vector_sum_over(n, f));
}

// ---- functions

/// Value where NaN stays NaN: lanes outside [low, high] are moved to its nearest end.
HWY_INLINE VecF32 clamp(VecF32 x, float low, float high) {
  const VecF32 lo = hn::Set(TagF32(), low), hi = hn::Set(TagF32(), high);
  return hn::IfThenElse(hn::Lt(x, lo), lo, hn::IfThenElse(hn::Gt(x, hi), hi, x));
}

/// The ends of clamp(), each in one instruction where the second operand of Min and Max is the result for NaN.
HWY_INLINE VecF32 at_most(VecF32 x, float high) {
  const VecF32 most = hn::Set(TagF32(), high);
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  return hn::Min(most, x);
#else
  return hn::IfThenElse(hn::Gt(x, most), most, x);
#endif
}
HWY_INLINE VecF32 at_least(VecF32 x, float low) {
  const VecF32 least = hn::Set(TagF32(), low);
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  return hn::Max(least, x);
#else
  return hn::IfThenElse(hn::Lt(x, least), least, x);
#endif
}

/// p 2^n for integers n up to 128, which makes infinity; 0 in the lanes of `vanishes`.
HWY_INLINE VecF32 times_power_of_2(VecF32 p, VecF32 n, hn::Mask<TagF32> vanishes) {
#if HWY_TARGET == HWY_AVX3
  return {_mm512_maskz_scalef_ps(static_cast<__mmask16>(~vanishes.raw), p.raw, n.raw)};
#else
  // The float n + 1.5 * 2^23 + 127 has n + 127, the exponent of 2^n, in its low bits.
  const VecU32 exponent = hn::BitCast(TagU32(), hn::Add(n, hn::Set(TagF32(), 12582912.0f + 127.0f)));
  return hn::IfThenZeroElse(vanishes, hn::Mul(p, hn::BitCast(TagF32(), hn::ShiftLeft<23>(exponent))));
#endif
}

/// e^x for x <= 88: relative error below 1.2e-7; 0 below -87.33; NaN stays NaN.
HWY_INLINE VecF32 exp_to_88(VecF32 x) {
  const TagF32 d;
  constexpr float kShift = 12582912.0f;  // adding 1.5 * 2^23 rounds x / ln 2 to an integer n
  const VecF32 shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), hn::Set(d, kShift));
  const VecF32 n = hn::Sub(shifted, hn::Set(d, kShift));
  // r = x - n ln 2 in two steps: the first constant has few bits, so n times it is exact without a fused multiply-add.
  VecF32 r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  // (e^r - 1 - r) / r^2 interpolated at the five Chebyshev nodes of |r| <= ln 2 / 2.
  VecF32 p = hn::MulAdd(hn::Set(d, 0.00139262504f), r, hn::Set(d, 0.00836323295f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.0416665524f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.166665763f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.5f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  // e^-87.33 is just above the smallest normal f32.
  return times_power_of_2(p, n, hn::Lt(x, hn::Set(d, -87.33f)));
}

/// 2^x for x <= 128 where the result is rounded to bf16 or meets others that are: relative error below 3e-6; 1 at 0; 0
/// below -126, infinity above 127.5; NaN stays NaN.
HWY_INLINE VecF32 exp2_for_bf16(VecF32 x) {
  const TagF32 d;
  const VecF32 n = hn::Round(x), r = hn::Sub(x, n);
  // (2^r - 1) / r, fitted to the smallest relative error of the result for |r| <= 1/2.
  VecF32 p = hn::MulAdd(hn::Set(d, 0.00958285319f), r, hn::Set(d, 0.0559064265f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.240240986f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.693124193f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  return times_power_of_2(p, n, hn::Lt(x, hn::Set(d, -126.0f)));
}

/// The same for any x.
HWY_INLINE VecF32 exp2_for_bf16_any(VecF32 x) {
#if HWY_TARGET == HWY_AVX3
  return exp2_for_bf16(x);  // its power of two knows no limit
#else
  return exp2_for_bf16(at_most(x, 128.0f));
#endif
}

/// 1 / x for 1 <= x, to a relative 2^-14.
HWY_INLINE VecF32 reciprocal_for_bf16(VecF32 x) {
#if HWY_TARGET == HWY_AVX3
  return hn::ApproximateReciprocal(x);
#else
  return hn::Div(hn::Set(TagF32(), 1.0f), x);
#endif
}

/// The same to 2^-23, for finite x.
HWY_INLINE VecF32 refined_reciprocal(VecF32 x) {
  const VecF32 y = reciprocal_for_bf16(x);
#if HWY_TARGET == HWY_AVX3
  return hn::MulAdd(y, hn::NegMulAdd(x, y, hn::Set(TagF32(), 1.0f)), y);
#else
  return y;
#endif
}

/// exp_to_88() for any x: infinity above 88.
HWY_INLINE VecF32 exp_f32(VecF32 x) {
  const TagF32 d;
  const VecF32 infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  return hn::IfThenElse(hn::Gt(x, hn::Set(d, 88.0f)), infinity, exp_to_88(x));
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
