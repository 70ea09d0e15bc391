#pragma once
// The matrix products of linear layers, for those who compute them and those who measure them.

#include <compare>
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

/// How the second operand reaches the kernel.
enum class GemmLayout : uint8_t {
  plain,   ///< as it lies in memory
  packed,  ///< copied first into the blocked layout that oneDNN likes best
};

}  // namespace trireme
