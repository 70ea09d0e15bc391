// Twice as many bf16 as a vector has lanes, read as two f32 vectors: those in even and those in odd places. Each needs
// one instruction, widening in order needs two; where the CPU's own bf16 rounding is allowed, two instructions round
// both. Sums over a row add in a different order than without pairs.

#if defined(TRIREME_PAIRS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_PAIRS_INL_H
#undef TRIREME_PAIRS_INL_H
#else
#define TRIREME_PAIRS_INL_H
#endif

#include "ops/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

struct Pair {
  VecF32 even, odd;
  HWY_INLINE Pair(VecF32 e, VecF32 o) : even(e), odd(o) {}
  HWY_INLINE Pair(VecF32 both) : even(both), odd(both) {}  // NOLINT: constants meet pairs and vectors alike
};

/// All lanes of both vectors are meant.
struct PairLanes {};

/// f(i, PairLanes) for each whole pair of [0, n) of bf16, then, and of f32 at once, as for_each_vector().
template <class T, class F>
HWY_INLINE void for_each_pair(int64_t n, F&& f) {
  int64_t i = 0;
  if constexpr (is_bf16<T>)
    for (; i + 2 * kLanes <= n; i += 2 * kLanes) f(i, PairLanes{});
  for (; i + kLanes <= n; i += kLanes) f(i, AllLanes{});
  if (i < n) f(i, n - i);
}

// ---- memory

HWY_INLINE Pair load(const bf16_t* p, PairLanes) {
  const TagU32 d;
  const VecU32 bits = hn::LoadU(d, reinterpret_cast<const uint32_t*>(p));
  return {hn::BitCast(TagF32(), hn::ShiftLeft<16>(bits)), hn::BitCast(TagF32(), hn::And(bits, hn::Set(d, 0xFFFF0000)))};
}
template <class T>
HWY_INLINE Pair load(const T* p, PairLanes lanes, float /*rest*/) {
  return load(p, lanes);
}
/// Of f32 values in the order of pairs: even ones before odd ones. No kernel reads f32 tensors in pairs.
HWY_INLINE Pair load(const float* p, PairLanes) { return {hn::LoadU(TagF32(), p), hn::LoadU(TagF32(), p + kLanes)}; }
HWY_INLINE void store(Pair v, float* p, PairLanes) {
  hn::StoreU(v.even, TagF32(), p);
  hn::StoreU(v.odd, TagF32(), p + kLanes);
}

/// The bits of v whose upper half narrow() makes; the lower half is anything.
HWY_INLINE VecU32 rounded_bits(VecF32 v) {
  const TagU32 d;
  const VecU32 bits = hn::BitCast(d, v), odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
  const VecU32 rounded = hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7FFF)));
  return hn::IfThenElse(hn::RebindMask(d, hn::IsNaN(v)), hn::Or(bits, hn::Set(d, 0x400000)), rounded);
}
HWY_INLINE void store(Pair v, bf16_t* p, PairLanes) {
  const TagU32 d;
  const VecU32 even = hn::ShiftRight<16>(rounded_bits(v.even));
  const VecU32 odd = hn::And(rounded_bits(v.odd), hn::Set(d, 0xFFFF0000));
  hn::StoreU(hn::Or(even, odd), d, reinterpret_cast<uint32_t*>(p));
}
#if HWY_TARGET == HWY_AVX3
/// The bf16 of a, then those of b, in one instruction of AVX512-BF16 (as narrow_fast()).
HWY_INLINE __m512i narrow_both(VecF32 a, VecF32 b) {
  __m512i both;
  asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(both) : "v"(a.raw), "v"(b.raw));
  return both;
}
/// 16-bit elements of the lower and of the upper half in turn.
HWY_INLINE __m512i interleave_halves(__m512i both) {
  alignas(64) static constexpr uint16_t kInterleaved[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                            21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                            11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return _mm512_permutexvar_epi16(_mm512_load_si512(kInterleaved), both);
}
#endif
HWY_INLINE void store(Pair v, native_bf16_t* p, PairLanes lanes) {
#if HWY_TARGET == HWY_AVX3
  (void)lanes;
  _mm512_storeu_si512(p, interleave_halves(narrow_both(v.even, v.odd)));
#else
  store(v, static_cast<bf16_t*>(p), lanes);
#endif
}

/// to = a, then b: as two stores, in one conversion where the CPU has it.
template <class E>
requires is_bf16<E> HWY_INLINE void store_in_order(VecF32 a, VecF32 b, E* to) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (std::is_base_of_v<native_bf16_t, E>) {
    _mm512_storeu_si512(to, narrow_both(a, b));
    return;
  }
#endif
  store(a, to, AllLanes{});
  store(b, to + kLanes, AllLanes{});
}

/// Rows of bf16 and both as one row of pairs: even_row = even, odd_row = odd, pairs = {even[0], odd[0], even[1], ...}.
template <class E>
requires is_bf16<E> HWY_INLINE void store_both(VecF32 even, VecF32 odd, E* even_row, E* odd_row, E* pairs) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (std::is_base_of_v<native_bf16_t, E>) {
    const __m512i both = narrow_both(even, odd);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(even_row), _mm512_castsi512_si256(both));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(odd_row), _mm512_extracti64x4_epi64(both, 1));
    _mm512_storeu_si512(pairs, interleave_halves(both));
    return;
  }
#endif
  store(even, even_row, AllLanes{});
  store(odd, odd_row, AllLanes{});
  store(Pair(even, odd), pairs, PairLanes{});
}

/// n f32 values in the order of pairs become values in their own order.
HWY_INLINE void order_pairs(float* values, int64_t n) {
  HWY_ALIGN float pair[2 * kLanes];
  for (int64_t first = 0; first + 2 * kLanes <= n; first += 2 * kLanes) {
    std::memcpy(pair, values + first, sizeof pair);
    for (int64_t i = 0; i < kLanes; ++i) {
      values[first + 2 * i] = pair[i];
      values[first + 2 * i + 1] = pair[kLanes + i];
    }
  }
}

// ---- arithmetic, of vectors and of pairs alike

HWY_INLINE VecF32 add(VecF32 a, VecF32 b) { return hn::Add(a, b); }
HWY_INLINE VecF32 subtract(VecF32 a, VecF32 b) { return hn::Sub(a, b); }
HWY_INLINE VecF32 multiply(VecF32 a, VecF32 b) { return hn::Mul(a, b); }
HWY_INLINE VecF32 multiply_add(VecF32 a, VecF32 b, VecF32 c) { return hn::MulAdd(a, b, c); }
HWY_INLINE Pair add(Pair a, Pair b) { return {hn::Add(a.even, b.even), hn::Add(a.odd, b.odd)}; }
HWY_INLINE Pair subtract(Pair a, Pair b) { return {hn::Sub(a.even, b.even), hn::Sub(a.odd, b.odd)}; }
HWY_INLINE Pair multiply(Pair a, Pair b) { return {hn::Mul(a.even, b.even), hn::Mul(a.odd, b.odd)}; }
HWY_INLINE Pair multiply_add(Pair a, Pair b, Pair c) {
  return {hn::MulAdd(a.even, b.even, c.even), hn::MulAdd(a.odd, b.odd, c.odd)};
}

template <class F>
HWY_INLINE VecF32 of_each(VecF32 v, F&& f) {
  return f(v);
}
template <class F>
HWY_INLINE Pair of_each(Pair v, F&& f) {
  return {f(v.even), f(v.odd)};
}

/// A running sum in two vectors.
struct PairSum {
  Pair sum;
  HWY_INLINE PairSum() : sum(hn::Zero(TagF32())) {}
  HWY_INLINE void operator+=(VecF32 v) { sum.even = hn::Add(sum.even, v); }
  HWY_INLINE void operator+=(Pair v) { sum = add(sum, v); }
  HWY_INLINE void add_product(VecF32 a, VecF32 b) { sum.even = hn::MulAdd(a, b, sum.even); }
  HWY_INLINE void add_product(Pair a, Pair b) { sum = multiply_add(a, b, sum); }
  HWY_INLINE VecF32 vector() const { return hn::Add(sum.even, sum.odd); }
  HWY_INLINE float total() const { return sum_lanes(vector()); }
};

/// vector_sum_over() in which f is given pairs of bf16.
template <class T, class F>
HWY_INLINE VecF32 vector_sum_over_pairs(int64_t n, F&& f) {
  if constexpr (!is_bf16<T>) return vector_sum_over(n, f);
  PairSum a, b;
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    a += f(i, PairLanes{});
    b += f(i + 2 * kLanes, PairLanes{});
  }
  for (; i + kLanes <= n; i += kLanes) a += f(i, AllLanes{});
  if (i < n) b += f(i, n - i);
  a += b.sum;
  return a.vector();
}
template <class T, class F>
HWY_INLINE float sum_over_pairs(int64_t n, F&& f) {
  return sum_lanes(vector_sum_over_pairs<T>(n, f));
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
