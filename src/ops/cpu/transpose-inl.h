// Transposes blocks of 32-bit units, one row per lane of a vector; compiled once per instruction set.

#if defined(TRIREME_TRANSPOSE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_TRANSPOSE_INL_H
#undef TRIREME_TRANSPOSE_INL_H
#else
#define TRIREME_TRANSPOSE_INL_H
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "ops/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void transpose(VecU32 (&)[kLanes]) {}
#else
/// In each four rows, within each 128-bit block: row r of a block becomes its column r.
HWY_INLINE void transpose_in_blocks(VecU32 (&rows)[kLanes]) {
  const TagU32 d;
#pragma GCC unroll 16
  for (int64_t r = 0; r < kLanes; r += 4) {
    const VecU32 even_low = hn::InterleaveLower(d, rows[r], rows[r + 2]),
                 even_high = hn::InterleaveUpper(d, rows[r], rows[r + 2]),
                 odd_low = hn::InterleaveLower(d, rows[r + 1], rows[r + 3]),
                 odd_high = hn::InterleaveUpper(d, rows[r + 1], rows[r + 3]);
    rows[r] = hn::InterleaveLower(d, even_low, odd_low);
    rows[r + 1] = hn::InterleaveUpper(d, even_low, odd_low);
    rows[r + 2] = hn::InterleaveLower(d, even_high, odd_high);
    rows[r + 3] = hn::InterleaveUpper(d, even_high, odd_high);
  }
}

/// Lane c of row r becomes lane r of row c.
HWY_INLINE void transpose(VecU32 (&rows)[kLanes]) {
  transpose_in_blocks(rows);
#if HWY_MAX_BYTES == 32
  const TagU32 d;
#pragma GCC unroll 4
  for (int64_t c = 0; c < 4; ++c) {
    const VecU32 first = rows[c], second = rows[c + 4];
    rows[c] = hn::ConcatLowerLower(d, second, first);
    rows[c + 4] = hn::ConcatUpperUpper(d, second, first);
  }
#elif HWY_MAX_BYTES == 64
  const TagU32 d;
#pragma GCC unroll 4
  for (int64_t c = 0; c < 4; ++c) {
    const VecU32 even_low = hn::ConcatLowerLower(d, rows[c + 8], rows[c]),
                 even_high = hn::ConcatUpperUpper(d, rows[c + 8], rows[c]),
                 odd_low = hn::ConcatLowerLower(d, rows[c + 12], rows[c + 4]),
                 odd_high = hn::ConcatUpperUpper(d, rows[c + 12], rows[c + 4]);
    rows[c] = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(odd_low), even_low);
    rows[c + 4] = hn::OddEvenBlocks(odd_low, hn::SwapAdjacentBlocks(even_low));
    rows[c + 8] = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(odd_high), even_high);
    rows[c + 12] = hn::OddEvenBlocks(odd_high, hn::SwapAdjacentBlocks(even_high));
  }
#else
  static_assert(kLanes == 4);
#endif
}
#endif

/// load_at(row, c) gives units c to c + kLanes - 1 of a row below `count`; those from there to `rows`, a multiple of
/// kLanes, are 0. store_at(c, row, v) gets unit c of the rows row to row + kLanes - 1, for c < the whole vectors of
/// `units`. Returns the units that are done.
template <class LoadAt, class StoreAt>
HWY_INLINE int64_t transpose_whole_vectors(int64_t count, int64_t rows, int64_t units, LoadAt&& load_at,
                                           StoreAt&& store_at) {
  const TagU32 d;
  const int64_t whole = units / kLanes * kLanes;
  for (int64_t row = 0; row < rows; row += kLanes)
    for (int64_t c = 0; c < whole; c += kLanes) {
      VecU32 block[kLanes];
#pragma GCC unroll 16
      for (int64_t r = 0; r < kLanes; ++r) block[r] = row + r < count ? load_at(row + r, c) : hn::Zero(d);
      transpose(block);
#pragma GCC unroll 16
      for (int64_t r = 0; r < kLanes; ++r) store_at(c + r, row, block[r]);
    }
  return whole;
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
