#include <algorithm>
#include <vector>

#include "ops/reference/reference_ops.h"

namespace trireme {
namespace {

void zero_rows(View y) { std::fill_n(y.as<double>(), y.count(), 0.0); }

void add_rows(ConstView ids, ConstView table, View y) {
  const int64_t width = y.shape()[1];
  for (int64_t row = 0; row < y.rows(); ++row)
    for (int64_t i = 0; i < width; ++i)
      y.as<double>()[row * width + i] += table.as<double>()[ids.as<int32_t>()[row] * width + i];
}

}  // namespace

void ReferenceOps::do_embedding(Context&, ConstView tokens, ConstView positions, ConstView tokens_table,
                                ConstView positions_table, View y) {
  zero_rows(y);
  add_rows(tokens, tokens_table, y);
  if (!positions.empty()) add_rows(positions, positions_table, y);
}

void ReferenceOps::do_embedding_part(Context&, ConstView tokens, ConstView table, TableRows part, View y) {
  const int64_t width = y.shape()[1];
  zero_rows(y);
  for (int64_t row = 0; row < y.rows(); ++row) {
    const int64_t own = tokens.as<int32_t>()[row] - part.first;
    if (own < 0 || own >= table.rows()) continue;
    for (int64_t i = 0; i < width; ++i) y.as<double>()[row * width + i] = table.as<double>()[own * width + i];
  }
}

void ReferenceOps::do_embedding_add(Context&, ConstView ids, ConstView table, View y) { add_rows(ids, table, y); }

void ReferenceOps::do_scatter_rows(Context&, ConstView y, ConstView rows, View x) {
  const int64_t width = x.shape()[1];
  zero_rows(x);
  for (int64_t n = 0; n < y.rows(); ++n)
    for (int64_t i = 0; i < width; ++i)
      x.as<double>()[rows.as<int32_t>()[n] * width + i] = y.as<double>()[n * width + i];
}

void ReferenceOps::do_embedding_backward(Context&, ConstView ids, ConstView dy, View dtable, Write write,
                                         TableRows part) {
  const int64_t rows = dy.shape()[0], width = dy.shape()[1];
  std::vector<double> sums(static_cast<size_t>(dtable.count()));
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t own = ids.as<int32_t>()[row] - part.first;
    if (own < 0 || own >= dtable.rows()) continue;
    for (int64_t i = 0; i < width; ++i) sums[static_cast<size_t>(own * width + i)] += dy.as<double>()[row * width + i];
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    double& out = dtable.as<double>()[i];
    out = write != Write::overwrite ? out + sums[i] : sums[i];
  }
}

}  // namespace trireme
