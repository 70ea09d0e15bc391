#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "ops/element_sum.h"
#include "ops/reference/reference_ops.h"
#include "tensor/f16.h"

namespace trireme {

void ReferenceOps::do_sum_parts(Context&, ConstView parts, View y) {
  for (int64_t i = 0; i < y.count(); ++i) {
    double sum = 0;
    for (int64_t p = 0; p < parts.rows(); ++p) sum += parts.as<double>()[p * y.count() + i];
    y.as<double>()[i] = sum;
  }
}

void ReferenceOps::do_add(Context&, ConstView x, View y) {
  for (int64_t i = 0; i < x.count(); ++i) y.as<double>()[i] += x.as<double>()[i];
}

void ReferenceOps::do_cast(Context&, ConstView x, View y) {
  std::copy_n(x.as<double>(), x.count(), y.as<double>());  // its only floating type
}

void ReferenceOps::do_zero(Context&, View x) { std::memset(x.data(), 0, x.bytes()); }

void ReferenceOps::do_place_rows(Context&, ConstView x, const RowPattern& pattern, int64_t column, float factor,
                                 View y) {
  const int64_t width = x.shape()[1];
  for (int64_t row = 0; row < x.rows(); ++row)
    for (int64_t i = 0; i < width; ++i)
      y.as<double>()[pattern.place(row) * y.shape()[1] + column + i] =
          static_cast<double>(factor) * x.as<double>()[row * width + i];
}

void ReferenceOps::do_take_rows(Context&, ConstView x, const RowPattern& pattern, int64_t column, float factor, View y,
                                Write write) {
  const int64_t width = y.shape()[1];
  for (int64_t row = 0; row < y.rows(); ++row)
    for (int64_t i = 0; i < width; ++i) {
      double& to = y.as<double>()[row * width + i];
      to = (write == Write::overwrite ? 0 : to) +
           static_cast<double>(factor) * x.as<double>()[pattern.place(row) * x.shape()[1] + column + i];
    }
}

void ReferenceOps::do_squared_norms(Context&, ConstView x, View values) {
  constexpr int64_t kPartials = 16;
  for (int64_t chunk = 0; chunk < values.count(); ++chunk) {
    double partials[kPartials] = {}, sum = 0;
    for (int64_t i = chunk * kNormChunk; i < std::min((chunk + 1) * kNormChunk, x.count()); ++i)
      partials[i % kPartials] += x.as<double>()[i] * x.as<double>()[i];
    for (double partial : partials) sum += partial;
    values.as<double>()[chunk] = sum;
  }
}

void ReferenceOps::do_element_sums(Context&, ConstView x, ConstView low, const ElementPlaces& places, View sums) {
  const auto bits_of = [&](int64_t i) {
    if (x.dtype() == DType::f32) return std::bit_cast<uint32_t>(x.as<float>()[i]);
    if (x.dtype() == DType::f16) return std::bit_cast<uint32_t>(to_float(x.as<f16_t>()[i]));
    const uint32_t high = uint32_t{x.as<bf16_t>()[i].bits} << 16;
    return low.empty() ? high : high + static_cast<uint32_t>(int32_t{low.as<int16_t>()[i]});
  };
  for (int64_t chunk = 0; chunk < sums.count(); ++chunk) {
    uint64_t sum = 0;
    for (int64_t i = chunk * kNormChunk; i < std::min((chunk + 1) * kNormChunk, x.count()); ++i)
      sum += element_term(places.key + static_cast<uint64_t>(places.of(i)) * kElementStride, bits_of(i));
    sums.as<int64_t>()[chunk] = static_cast<int64_t>(sum);
  }
}

void ReferenceOps::do_adamw(Context&, const AdamW& o, ConstView grad, View m, View v, View weights, View) {
  const double rate = o.learning_rate, beta1 = o.beta1, beta2 = o.beta2;
  for (int64_t i = 0; i < grad.count(); ++i) {
    const double g = o.gradient_scale * grad.as<double>()[i];
    double &mi = m.as<double>()[i], &vi = v.as<double>()[i], &p = weights.as<double>()[i];
    mi = beta1 * mi + (1 - beta1) * g;
    vi = beta2 * vi + (1 - beta2) * g * g;
    p -= rate * o.weight_decay * p;
    p -= rate * (mi / o.correction1) / (std::sqrt(vi / o.correction2) + o.epsilon);
  }
}

}  // namespace trireme
