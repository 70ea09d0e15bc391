#include <vector>

#include "ops/check.h"
#include "ops/reference/reference_ops.h"

namespace trireme {

void ReferenceOps::do_embedding(Context&, ConstView tokens, ConstView positions, ConstView tokens_table,
                                ConstView positions_table, View y) {
  check_ids("embedding", "token", tokens, tokens_table.shape()[0]);
  check_ids("embedding", "position", positions, positions_table.shape()[0]);
  const int64_t rows = y.shape()[0], width = y.shape()[1];
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < width; ++i)
      y.as<double>()[row * width + i] = tokens_table.as<double>()[tokens.as<int32_t>()[row] * width + i] +
                                        positions_table.as<double>()[positions.as<int32_t>()[row] * width + i];
}

void ReferenceOps::do_embedding_backward(Context&, ConstView ids, ConstView dy, View dtable, Write write) {
  check_ids("embedding_backward", "id", ids, dtable.shape()[0]);
  const int64_t rows = dy.shape()[0], width = dy.shape()[1];
  std::vector<double> sums(static_cast<size_t>(dtable.count()));
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < width; ++i)
      sums[static_cast<size_t>(ids.as<int32_t>()[row] * width + i)] += dy.as<double>()[row * width + i];
  for (size_t i = 0; i < sums.size(); ++i) {
    double& out = dtable.as<double>()[i];
    out = write != Write::overwrite ? out + sums[i] : sums[i];
  }
}

}  // namespace trireme
