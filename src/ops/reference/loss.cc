#include <algorithm>
#include <cmath>

#include "ops/reference/reference_ops.h"

namespace trireme {

void ReferenceOps::do_softmax_stats(Context&, ConstView logits, ConstView targets, int64_t first_class, int64_t classes,
                                    View max, View sum, View target) {
  const int64_t rows = logits.shape()[0], columns = logits.shape()[1];
  for (int64_t row = 0; row < rows; ++row) {
    const double* z = logits.as<double>() + row * columns;
    const double m = *std::max_element(z, z + classes);
    double s = 0;
    for (int64_t j = 0; j < classes; ++j) s += std::exp(z[j] - m);
    const int64_t t = targets.as<int32_t>()[row] - first_class;
    max.as<double>()[row] = m;
    sum.as<double>()[row] = s;
    target.as<double>()[row] = t >= 0 && t < classes ? z[t] : 0;
  }
}

void ReferenceOps::do_cross_entropy_backward(Context&, View logits, ConstView targets, int64_t first_class,
                                             int64_t classes, ConstView max, ConstView sum, float scale) {
  const int64_t rows = logits.shape()[0], columns = logits.shape()[1];
  for (int64_t row = 0; row < rows; ++row) {
    double* z = logits.as<double>() + row * columns;
    const int32_t target = targets.as<int32_t>()[row];
    for (int64_t j = 0; j < columns; ++j) {
      const double p = std::exp(z[j] - max.as<double>()[row]) / sum.as<double>()[row];
      const double hit = j == target - first_class ? 1 : 0;
      z[j] = j < classes && target >= 0 ? static_cast<double>(scale) * (p - hit) : 0;
    }
  }
}

}  // namespace trireme
