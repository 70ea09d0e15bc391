// Legend: h = dims / 2; pair i is (x_i, x_{i + h}).
#include <cmath>

#include "ops/reference/reference_ops.h"

namespace trireme {

void ReferenceOps::do_rotary_table(Context&, std::span<const float> frequencies, double factor, View table) {
  const int64_t dims = table.shape()[1], half = dims / 2;
  for (int64_t p = 0; p < table.rows(); ++p)
    for (int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(p) * static_cast<double>(frequencies[static_cast<size_t>(i)]);
      table.as<double>()[p * dims + i] = factor * std::cos(angle);
      table.as<double>()[p * dims + half + i] = factor * std::sin(angle);
    }
}

void ReferenceOps::do_rotary(Context&, View qkv, ConstView positions, ConstView table, bool inverse) {
  const int64_t groups = qkv.shape()[1], parts = qkv.shape()[2], head_dim = qkv.shape()[3];
  const int64_t dims = table.shape()[1], half = dims / 2;
  for (int64_t row = 0; row < qkv.rows(); ++row)
    for (int64_t group = 0; group < groups; ++group)
      for (int64_t part = 0; part < parts - 1; ++part) {
        double* x = qkv.as<double>() + ((row * groups + group) * parts + part) * head_dim;
        const double* cos = table.as<double>() + positions.as<int32_t>()[row] * dims;
        for (int64_t i = 0; i < half; ++i) {
          const double c = cos[i], s = inverse ? -cos[half + i] : cos[half + i], a = x[i], b = x[i + half];
          x[i] = a * c - b * s;
          x[i + half] = b * c + a * s;
        }
      }
}

}  // namespace trireme
