// Attention's matrix products in the tile registers of AMX; compiled once per instruction set. Written for attention's
// sizes: at most 32 rows, operands in the caches.

#if defined(TRIREME_TILE_REGISTERS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_TILE_REGISTERS_INL_H
#undef TRIREME_TILE_REGISTERS_INL_H
#else
#define TRIREME_TILE_REGISTERS_INL_H
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "ops/cpu/tile_gemm-inl.h"
#include "ops/cpu/tiles.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

/// bf16 elements T as operands of tile registers: left ones row by row, right ones as pairs (tile_gemm-inl.h). Zeros
/// fill k up to whole steps of tiles::kSteps.
template <class T>
struct tile_of : T {};

/// Registers 0 to 3 hold sums, two rows of two; 4 and 5 the left operand's rows, 6 and 7 the right one's columns.
template <class T>
class Products<tile_of<T>> {
 public:
  static constexpr bool kInTiles = true;
  static constexpr int64_t kRows = 2 * tiles::kRows;
  static constexpr int64_t kSteps = tiles::kSteps, kColumns = tiles::kColumns;

  Products() { take_rows(kRows); }
  ~Products() { tiles::release(); }
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  /// c [m x n] = a b, or += a b: m <= kRows, n and k multiples of kColumns and kSteps. a has lda elements, b ldb pairs,
  /// c ldc floats per row.
  void multiply(int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, float* c,
                int64_t ldc, bool accumulate) {
    if (m != rows_) take_rows(m);
    for (int64_t i = 0; i < n; i += 2 * kColumns) {
      const bool both = i + kColumns < n;
      if (m > tiles::kRows)
        both ? sum<true, true>(k, a, lda, b + 2 * i, ldb, c + i, ldc, accumulate)
             : sum<true, false>(k, a, lda, b + 2 * i, ldb, c + i, ldc, accumulate);
      else
        both ? sum<false, true>(k, a, lda, b + 2 * i, ldb, c + i, ldc, accumulate)
             : sum<false, false>(k, a, lda, b + 2 * i, ldb, c + i, ldc, accumulate);
    }
  }

 private:
  /// The registers of rows get those of a product of m: the rest of a tensor's rows does not exist in memory.
  void take_rows(int64_t m) {
    tiles::Shapes shapes;
    for (int tile = 0; tile < tiles::kRegisters; ++tile) {
      const bool second = tile == 2 || tile == 3 || tile == 5, right = tile > 5;
      const int64_t rows = right ? tiles::kRows : second ? m - tiles::kRows : std::min<int64_t>(m, tiles::kRows);
      if (rows <= 0) continue;  // m <= 16: not used
      shapes.rows[tile] = static_cast<uint8_t>(rows);
      shapes.row_bytes[tile] = tiles::kRowBytes;
    }
    tiles::configure(shapes);
    rows_ = m;
  }

  template <bool kBothRows, bool kBothColumns>
  void sum(int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, float* c, int64_t ldc, bool accumulate) {
    const int64_t a_stride = 2 * lda, b_stride = 4 * ldb, c_stride = 4 * ldc;
    const T* a_below = a + tiles::kRows * lda;
    float* c_below = c + tiles::kRows * ldc;
    if (accumulate) {
      tiles::load<0>(c, c_stride);
      if constexpr (kBothColumns) tiles::load<1>(c + kColumns, c_stride);
      if constexpr (kBothRows) tiles::load<2>(c_below, c_stride);
      if constexpr (kBothRows && kBothColumns) tiles::load<3>(c_below + kColumns, c_stride);
    } else {
      tiles::zero<0>();
      if constexpr (kBothColumns) tiles::zero<1>();
      if constexpr (kBothRows) tiles::zero<2>();
      if constexpr (kBothRows && kBothColumns) tiles::zero<3>();
    }
    for (int64_t step = 0; step < k; step += kSteps) {
      const T* pairs = b + step * ldb;  // a line of pairs is two steps
      tiles::load<6>(pairs, b_stride);
      tiles::load<4>(a + step, a_stride);
      tiles::multiply_add<0, 4, 6>();
      if constexpr (kBothColumns) {
        tiles::load<7>(pairs + 2 * kColumns, b_stride);
        tiles::multiply_add<1, 4, 7>();
      }
      if constexpr (kBothRows) {
        tiles::load<5>(a_below + step, a_stride);
        tiles::multiply_add<2, 5, 6>();
        if constexpr (kBothColumns) tiles::multiply_add<3, 5, 7>();
      }
    }
    tiles::store<0>(c, c_stride);
    if constexpr (kBothColumns) tiles::store<1>(c + kColumns, c_stride);
    if constexpr (kBothRows) tiles::store<2>(c_below, c_stride);
    if constexpr (kBothRows && kBothColumns) tiles::store<3>(c_below + kColumns, c_stride);
  }

  int64_t rows_ = 0;
};

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
