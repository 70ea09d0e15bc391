#pragma once
// Scratch memory that calls can ask for, by group of operators. Arguments as in CallSizes.

#include <cstddef>
#include <cstdint>

#include "ops/ops.h"

namespace trireme {

/// What Arena::take() uses for `count` elements.
inline size_t scratch_size(DType dtype, int64_t count) {
  return (static_cast<size_t>(count) * size_of(dtype) + 63) / 64 * 64;
}

size_t embedding_scratch_bytes(int64_t rows, int64_t width);
size_t column_sums_scratch_bytes(int64_t rows, int64_t width);
size_t norm_scratch_bytes(int64_t rows, int64_t width);
size_t attention_scratch_bytes(int64_t rows, const AttentionShape& shape);

}  // namespace trireme
