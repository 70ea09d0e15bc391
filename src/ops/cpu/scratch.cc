#include <algorithm>

#include "ops/cpu/column_sums.h"
#include "ops/cpu/cpu_ops.h"

namespace trireme {

size_t small_ops_scratch_bytes(int64_t rows, int64_t width, int threads) {
  const size_t norm = 2 * (ColumnSums::scratch_bytes(threads, width) + 64);         // dw and db, aligned
  const size_t embedding = 2 * (static_cast<size_t>(rows) * sizeof(int32_t) + 64);  // rows sorted by id, aligned
  return std::max(norm, embedding);
}

}  // namespace trireme
