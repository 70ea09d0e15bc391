// Small matrix products for attention, whose operands are in the caches; compiled once per instruction set. Each
// element of a is broadcast against vectors of b; sums stay in f32 registers over the whole k loop.
//
// With f32 operands the steps of k are elements. With bf16 operands (AVX512-BF16 only) they are pairs of elements,
// which one instruction multiplies and adds: matrices are stored as if a pair were one 32-bit element, an odd k is
// followed by a zero.

#if defined(TRIREME_TILE_GEMM_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_TILE_GEMM_INL_H
#undef TRIREME_TILE_GEMM_INL_H
#else
#define TRIREME_TILE_GEMM_INL_H
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "ops/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

/// Rows of a register tile. With four vectors a row, 24 sums, 4 vectors of b and one of a fit 32 registers; with two,
/// 12 sums, 2 and 1 fit 16.
constexpr int kTileRows = 6;
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
constexpr int kTileVectors = 4;
#else
constexpr int kTileVectors = 2;
#endif

#if HWY_TARGET == HWY_AVX3
/// sums + even a * even b + odd a * odd b per f32 lane, an instruction of AVX512-BF16 as narrow_fast() is.
HWY_INLINE VecF32 dot_pairs(VecF32 a, VecF32 b, VecF32 sums) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sums.raw) : "v"(a.raw), "v"(b.raw));
  return sums;
}
#else
HWY_INLINE VecF32 dot_pairs(VecF32, VecF32, VecF32 sums) { return sums; }  // never called
#endif

/// One step of k, as a float: an f32 element or a pair of bf16 elements.
HWY_INLINE VecF32 multiply_add(const float*, VecF32 a, VecF32 b, VecF32 sums) { return hn::MulAdd(a, b, sums); }
HWY_INLINE VecF32 multiply_add(const native_bf16_t*, VecF32 a, VecF32 b, VecF32 sums) { return dot_pairs(a, b, sums); }
HWY_INLINE float step_at(const float* p) { return *p; }
HWY_INLINE float step_at(const native_bf16_t* p) {
  float pair;
  std::memcpy(&pair, p, sizeof pair);
  return pair;
}

/// Elements of a step.
template <class E>
constexpr int64_t kStep = sizeof(float) / sizeof(E);

/// How a is read: step k of row m is at a[m * lda + k], or, transposed, at a[k * lda + m].
enum class Side { rows, transposed };

/// sums [kRows][kVectors] += k_count steps of k. a: its rows are next_row, its steps next_step elements apart; b: ldb
/// steps.
template <int kRows, int kVectors, class E>
HWY_INLINE void add_steps(VecF32 (&sums)[kRows][kVectors], int64_t k_count, const E* HWY_RESTRICT a, int64_t next_row,
                          int64_t next_step, const E* HWY_RESTRICT b, int64_t ldb) {
  const TagF32 d;
  for (int64_t k = 0; k < k_count; ++k) {
    VecF32 row[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v)
      row[v] = hn::LoadU(d, reinterpret_cast<const float*>(b + kStep<E> * (k * ldb + v * kLanes)));
#pragma GCC unroll 8
    for (int m = 0; m < kRows; ++m) {
      const VecF32 left = hn::Set(d, step_at(a + m * next_row + k * next_step));
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sums[m][v] = multiply_add(a, left, row[v], sums[m][v]);
    }
  }
}

/// E: float or native_bf16_t. k_count, ldb and, for Side::transposed, lda count steps; lda of Side::rows counts
/// elements.
template <int kRows, int kVectors, Side kSide, class E>
HWY_NOINLINE void multiply_tile(int64_t k_count, const E* HWY_RESTRICT a, int64_t lda, const E* HWY_RESTRICT b,
                                int64_t ldb, float* HWY_RESTRICT c, int64_t ldc, bool accumulate) {
  const int64_t next_row = kSide == Side::rows ? lda : kStep<E>,
                next_step = kSide == Side::rows ? kStep<E> : lda * kStep<E>;
  const TagF32 d;
  VecF32 sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int m = 0; m < kRows; ++m)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sums[m][v] = accumulate ? hn::LoadU(d, c + m * ldc + v * kLanes) : hn::Zero(d);
  add_steps(sums, k_count, a, next_row, next_step, b, ldb);
#pragma GCC unroll 8
  for (int m = 0; m < kRows; ++m)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[m][v], d, c + m * ldc + v * kLanes);
}

/// One strip of kRows rows over all n columns.
template <int kRows, Side kSide, class E>
HWY_INLINE void multiply_strip(int64_t n, int64_t k, const E* a, int64_t lda, const E* b, int64_t ldb, float* c,
                               int64_t ldc, bool accumulate) {
  int64_t i = 0;
  for (; i + kTileVectors * kLanes <= n; i += kTileVectors * kLanes)
    multiply_tile<kRows, kTileVectors, kSide>(k, a, lda, b + i * kStep<E>, ldb, c + i, ldc, accumulate);
  if constexpr (kTileVectors > 2)
    for (; i + 2 * kLanes <= n; i += 2 * kLanes)
      multiply_tile<kRows, 2, kSide>(k, a, lda, b + i * kStep<E>, ldb, c + i, ldc, accumulate);
  for (; i < n; i += kLanes) multiply_tile<kRows, 1, kSide>(k, a, lda, b + i * kStep<E>, ldb, c + i, ldc, accumulate);
}

/// c [m x n] = a b, or += a b, over k elements; m <= kTileRows. n is a multiple of kLanes; c is row-major.
template <Side kSide, class E>
HWY_INLINE void multiply(int64_t m, int64_t n, int64_t k, const E* a, int64_t lda, const E* b, int64_t ldb, float* c,
                         int64_t ldc, bool accumulate) {
  const int64_t steps = (k + kStep<E> - 1) / kStep<E>;
  switch (m) {
    case 1:
      return multiply_strip<1, kSide>(n, steps, a, lda, b, ldb, c, ldc, accumulate);
    case 2:
      return multiply_strip<2, kSide>(n, steps, a, lda, b, ldb, c, ldc, accumulate);
    case 3:
      return multiply_strip<3, kSide>(n, steps, a, lda, b, ldb, c, ldc, accumulate);
    case 4:
      return multiply_strip<4, kSide>(n, steps, a, lda, b, ldb, c, ldc, accumulate);
    case 5:
      return multiply_strip<5, kSide>(n, steps, a, lda, b, ldb, c, ldc, accumulate);
    default:
      return multiply_strip<kTileRows, kSide>(n, steps, a, lda, b, ldb, c, ldc, accumulate);
  }
}

/// multiply() and the layout of its operands E; another kind of products has its own (tile_registers-inl.h).
template <class E>
class Products {
 public:
  static constexpr bool kInTiles = false;      ///< in tile registers
  static constexpr int64_t kRows = kTileRows;  ///< m at most
  static constexpr int64_t kSteps = kStep<E>;  ///< operands have zeros up to a multiple of this number of elements of k
  static constexpr int64_t kColumns = kLanes;  ///< n is a multiple

  void multiply(int64_t m, int64_t n, int64_t k, const E* a, int64_t lda, const E* b, int64_t ldb, float* c,
                int64_t ldc, bool accumulate) {
    HWY_NAMESPACE::multiply<Side::rows>(m, n, k, a, lda, b, ldb, c, ldc, accumulate);
  }
};

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
