#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/reference/reference_ops.h"

namespace trireme {

void ReferenceOps::do_softmax_stats(Context&, ConstView logits, ConstView targets, int64_t first_class, int64_t classes,
                                    View max, View sum, View target) {
  const int64_t rows = logits.shape()[0], columns = logits.shape()[1];
  for (int64_t row = 0; row < rows; ++row) {
    const double* z = logits.as<double>() + row * columns;
    const double m = classes == 0 ? -std::numeric_limits<double>::infinity() : *std::max_element(z, z + classes);
    double s = 0;
    for (int64_t j = 0; j < classes; ++j) s += std::exp(z[j] - m);
    const int64_t t = targets.as<int32_t>()[row] - first_class;
    max.as<double>()[row] = m;
    sum.as<double>()[row] = s;
    target.as<double>()[row] = t >= 0 && t < classes ? z[t] : 0;
  }
}

void ReferenceOps::do_softmax_combine(Context&, ConstView parts, View max, View sum, View target) {
  const int64_t rows = max.rows();
  const auto part = [&](int64_t p, int64_t which, int64_t row) {
    return parts.as<double>()[(3 * p + which) * rows + row];
  };
  for (int64_t row = 0; row < rows; ++row) {
    double m = part(0, 0, row), s = 0, t = 0;
    for (int64_t p = 1; p < parts.rows(); ++p) m = std::max(m, part(p, 0, row));
    for (int64_t p = 0; p < parts.rows(); ++p) {
      if (part(p, 1, row) != 0) s += part(p, 1, row) * std::exp(part(p, 0, row) - m);
      t += part(p, 2, row);
    }
    max.as<double>()[row] = m;
    sum.as<double>()[row] = s;
    target.as<double>()[row] = t;
  }
}

void ReferenceOps::do_smooth_target(Context&, ConstView logits, int64_t classes, double smoothing, View target) {
  for (int64_t row = 0; row < logits.rows(); ++row) {
    const double* z = logits.as<double>() + row * logits.shape()[1];
    double sum = 0;
    for (int64_t j = 0; j < classes; ++j) sum += z[j];
    double& t = target.as<double>()[row];
    t = (1 - smoothing) * t + smoothing * sum / static_cast<double>(classes);
  }
}

void ReferenceOps::do_cross_entropy(Context&, ConstView max, ConstView sum, ConstView target, ConstView targets,
                                    View total) {
  double loss = 0;
  for (int64_t row = 0; row < targets.rows(); ++row) {
    if (targets.as<int32_t>()[row] < 0) continue;
    loss += std::log(sum.as<double>()[row]) + max.as<double>()[row] - target.as<double>()[row];
  }
  *total.as<double>() += loss;
}

void ReferenceOps::do_cross_entropy_backward(Context&, View logits, ConstView targets, int64_t first_class,
                                             int64_t classes, ConstView max, ConstView sum, float scale,
                                             double smoothing, float cap) {
  const int64_t rows = logits.shape()[0], columns = logits.shape()[1];
  for (int64_t row = 0; row < rows; ++row) {
    double* z = logits.as<double>() + row * columns;
    const int32_t target = targets.as<int32_t>()[row];
    for (int64_t j = 0; j < columns; ++j) {
      const double p = std::exp(z[j] - max.as<double>()[row]) / sum.as<double>()[row];
      const double label = (j == target - first_class ? 1 - smoothing : 0) + smoothing / static_cast<double>(classes);
      const double capped = cap > 0 ? z[j] / static_cast<double>(cap) : 0;
      z[j] = j < classes && target >= 0 ? static_cast<double>(scale) * (p - label) * (1 - capped * capped) : 0;
    }
  }
}

void ReferenceOps::do_soft_cap(Context&, View x, float cap) {
  for (double& z : x.values<double>()) z = static_cast<double>(cap) * std::tanh(z / static_cast<double>(cap));
}

void ReferenceOps::do_squared_error(Context&, ConstView z, ConstView targets, View total) {
  double sum = 0;
  for (int64_t row = 0; row < z.rows(); ++row) {
    const double difference = z.as<double>()[row] - targets.as<double>()[row];
    sum += difference * difference;
  }
  *total.as<double>() += sum;
}

void ReferenceOps::do_squared_error_backward(Context&, View z, ConstView targets, float scale) {
  for (int64_t row = 0; row < z.rows(); ++row)
    z.as<double>()[row] = 2 * static_cast<double>(scale) * (z.as<double>()[row] - targets.as<double>()[row]);
}

}  // namespace trireme
