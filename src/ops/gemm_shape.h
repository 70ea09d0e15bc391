#pragma once
// The matrix products of linear layers, for those who compute them and those who measure them.

#include <compare>
#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace trireme {

/// The three products of a linear layer with weight w [out, in]; rows are tokens.
enum class GemmKind : uint8_t {
  forward,  ///< c [rows, out] = a [rows, in] b [out, in]^T + bias
  input,    ///< c [rows, in] = a [rows, out] b [out, in]
  weight,   ///< c [out, in] f32 = a [rows, out]^T b [rows, in]
};

struct GemmShape {
  GemmKind kind = GemmKind::forward;
  int64_t rows = 0, in = 0, out = 0;
  DType dtype = DType::f32;                            ///< of a and b, of bias, and of c except for GemmKind::weight
  auto operator<=>(const GemmShape&) const = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 misreads it
};

/// Sizes of a product c [m, n] = a [m, k] b [k, n] of this kind.
struct GemmSizes {
  int64_t m, n, k;
};
inline GemmSizes sizes_of(const GemmShape& s) {
  switch (s.kind) {
    case GemmKind::forward:
      return {s.rows, s.out, s.in};
    case GemmKind::input:
      return {s.rows, s.in, s.out};
    default:
      return {s.out, s.in, s.rows};
  }
}

/// Elements between the rows of operands that are columns of wider matrices; 0: their own width.
struct GemmStrides {
  int64_t a = 0, c = 0;
  auto operator<=>(const GemmStrides&) const = default;  // NOLINT(modernize-use-nullptr): as in GemmShape
};

/// How the second operand reaches the kernel.
enum class GemmLayout : uint8_t {
  plain,   ///< oneDNN, as stored in memory
  packed,  ///< oneDNN, copied first into the blocked layout that it likes best
  panels,  ///< our kernel, which packs as it goes (cpu/panel_gemm.h)
  tiles,   ///< our kernel in the tile registers of AMX, which packs both operands (cpu/tile_panel_gemm.h)
};
inline constexpr size_t kGemmLayouts = 4;

}  // namespace trireme
