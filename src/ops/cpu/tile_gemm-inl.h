// Small f32 matrix products for attention, whose operands lie in the caches; compiled once per instruction set.
// Each element of a is broadcast against vectors of b; sums stay in registers over the whole k loop.

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

/// How a is read: element (m, k) is at a[m * ld + k], or, transposed, at a[k * ld + m].
enum class Side { rows, transposed };

template <Side kSide>
HWY_INLINE const float* element(const float* a, int64_t ld, int64_t m, int64_t k) {
  return kSide == Side::rows ? a + m * ld + k : a + k * ld + m;
}

template <int kRows, int kVectors, Side kSide>
HWY_NOINLINE void multiply_tile(int64_t k_count, const float* HWY_RESTRICT a, int64_t lda, const float* HWY_RESTRICT b,
                                int64_t ldb, float* HWY_RESTRICT c, int64_t ldc, bool accumulate) {
  const TagF32 d;
  VecF32 sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int m = 0; m < kRows; ++m)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v)
      sums[m][v] = accumulate ? hn::LoadU(d, c + m * ldc + v * kLanes) : hn::Zero(d);
  for (int64_t k = 0; k < k_count; ++k) {
    VecF32 row[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) row[v] = hn::LoadU(d, b + k * ldb + v * kLanes);
#pragma GCC unroll 8
    for (int m = 0; m < kRows; ++m) {
      const VecF32 left = hn::Set(d, *element<kSide>(a, lda, m, k));
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sums[m][v] = hn::MulAdd(left, row[v], sums[m][v]);
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < kRows; ++m)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[m][v], d, c + m * ldc + v * kLanes);
}

/// One strip of kRows rows over all n columns.
template <int kRows, Side kSide>
HWY_INLINE void multiply_strip(int64_t n, int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb, float* c,
                               int64_t ldc, bool accumulate) {
  int64_t i = 0;
  for (; i + kTileVectors * kLanes <= n; i += kTileVectors * kLanes)
    multiply_tile<kRows, kTileVectors, kSide>(k, a, lda, b + i, ldb, c + i, ldc, accumulate);
  if constexpr (kTileVectors > 2)
    for (; i + 2 * kLanes <= n; i += 2 * kLanes)
      multiply_tile<kRows, 2, kSide>(k, a, lda, b + i, ldb, c + i, ldc, accumulate);
  for (; i < n; i += kLanes) multiply_tile<kRows, 1, kSide>(k, a, lda, b + i, ldb, c + i, ldc, accumulate);
}

/// c [m x n] = a b, or += a b; m <= kTileRows. n is a multiple of kLanes; b and c are row-major.
template <Side kSide>
HWY_INLINE void multiply(int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb,
                         float* c, int64_t ldc, bool accumulate) {
  switch (m) {
    case 1:
      return multiply_strip<1, kSide>(n, k, a, lda, b, ldb, c, ldc, accumulate);
    case 2:
      return multiply_strip<2, kSide>(n, k, a, lda, b, ldb, c, ldc, accumulate);
    case 3:
      return multiply_strip<3, kSide>(n, k, a, lda, b, ldb, c, ldc, accumulate);
    case 4:
      return multiply_strip<4, kSide>(n, k, a, lda, b, ldb, c, ldc, accumulate);
    case 5:
      return multiply_strip<5, kSide>(n, k, a, lda, b, ldb, c, ldc, accumulate);
    default:
      return multiply_strip<kTileRows, kSide>(n, k, a, lda, b, ldb, c, ldc, accumulate);
  }
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
