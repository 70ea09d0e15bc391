#include <algorithm>

#include "ops/cpu/column_sums.h"
#include "ops/cpu/cpu_ops.h"

namespace trireme {

size_t small_ops_scratch_bytes(int64_t rows, int64_t width, int threads) {
  // dw and db; the forward pass takes less: weight and bias as f32.
  const size_t norm =
      2 * ColumnSums::scratch_bytes(threads, width) + 2 * (static_cast<size_t>(width) * sizeof(float) + 64);
  const size_t embedding = 2 * (static_cast<size_t>(rows) * sizeof(int32_t) + 64);  // rows sorted by id, aligned
  return std::max(norm, embedding);
}

}  // namespace trireme
