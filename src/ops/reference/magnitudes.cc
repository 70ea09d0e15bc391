#include <cmath>

#include "ops/reference/reference_ops.h"

namespace trireme {

void ReferenceOps::do_low_rank_squares(Context&, ConstView w, ConstView b, ConstView a, View squares) {
  const int64_t in = w.shape()[1], rank = a.shape()[0];
  for (int64_t row = 0; row < w.rows(); ++row) {
    double sum = 0;
    for (int64_t i = 0; i < in; ++i) {
      double value = w.as<double>()[row * in + i];
      for (int64_t k = 0; k < rank; ++k) value += b.as<double>()[row * rank + k] * a.as<double>()[k * in + i];
      sum += value * value;
    }
    squares.as<double>()[row] = sum;
  }
}

void ReferenceOps::do_magnitude_factors(Context&, ConstView magnitudes, ConstView squares, View factors,
                                        View inverses) {
  for (int64_t i = 0; i < magnitudes.count(); ++i) {
    const double magnitude = magnitudes.as<double>()[i], inverse = 1 / std::sqrt(squares.as<double>()[i]);
    factors.as<double>()[i] = magnitude == 0 ? 1 : magnitude * inverse;
    inverses.as<double>()[i] = inverse;
  }
}

void ReferenceOps::do_scale_columns(Context&, ConstView x, ConstView factors, ConstView bias, View y) {
  const int64_t width = x.shape()[1];
  for (int64_t i = 0; i < x.count(); ++i)
    y.as<double>()[i] =
        x.as<double>()[i] * factors.as<double>()[i % width] + (bias.empty() ? 0 : bias.as<double>()[i % width]);
}

void ReferenceOps::do_scale_columns_backward(Context&, ConstView dy, ConstView x, ConstView factors, View dx,
                                             View products) {
  const int64_t width = x.shape()[1];
  for (int64_t column = 0; column < width; ++column) products.as<double>()[column] = 0;
  for (int64_t i = 0; i < x.count(); ++i) {
    products.as<double>()[i % width] += dy.as<double>()[i] * x.as<double>()[i];
    dx.as<double>()[i] = dy.as<double>()[i] * factors.as<double>()[i % width];
  }
}

}  // namespace trireme
