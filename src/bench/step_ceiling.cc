#include "bench/step_ceiling.h"

#include <algorithm>

#include "base/numbers.h"
#include "model/memory.h"

namespace trireme {
namespace {

template <class Products>
std::vector<GemmShape> shapes_of(const Products& products) {
  std::vector<GemmShape> shapes;
  for (const auto& product : products) shapes.push_back(product.shape);
  return shapes;
}

}  // namespace

/// Every GEMM of one step: forward, input and weight gradient of each linear and of the head.
std::vector<CeilingMeter::Product> CeilingMeter::products(const Spec& spec, DType dtype, int64_t rows) {
  std::vector<Product> products;
  const auto add = [&](int64_t at_once, int64_t out, int64_t in, double times) {
    for (const GemmKind kind : {GemmKind::forward, GemmKind::input, GemmKind::weight})
      products.push_back({{kind, at_once, in, out, dtype}, times});
  };
  const auto layers = static_cast<double>(spec.layers);
  double states = 0;
  for (int64_t layer = 0; layer < spec.layers; ++layer) states += spec.has_state(layer) ? 1 : 0;
  if (states < layers) {
    add(rows, spec.qkv_width(), spec.width, layers - states);
    add(rows, spec.width, spec.attention_width(), layers - states);
  }
  if (states > 0) {
    add(rows, spec.delta_width(), spec.width, states);
    add(rows, spec.width, spec.delta_value_width(), states);
  }
  add(rows, spec.mlp_in_width(), spec.width, layers);
  add(rows, spec.width, spec.inner_width, layers);
  if (!spec.has_decoder()) return products;
  const int64_t head_rows = std::min(rows, head_rows_for(spec, dtype, rows, {}));
  add(head_rows, spec.vocabulary_rows, spec.width, static_cast<double>(rows) / static_cast<double>(head_rows));
  return products;
}

CeilingMeter::CeilingMeter(const Spec& spec, DType dtype, int64_t rows, int threads)
    : products_(products(spec, dtype, rows)), meter_(shapes_of(products_), threads) {}

double CeilingMeter::flops() const {
  double flops = 0;
  for (const auto& [shape, times] : products_)
    flops +=
        times * 2.0 * static_cast<double>(shape.rows) * static_cast<double>(shape.in) * static_cast<double>(shape.out);
  return flops;
}

StepCeiling CeilingMeter::ceiling() const {
  double seconds = 0, plain_seconds = 0;
  for (size_t i = 0; i < products_.size(); ++i) {
    const GemmTiming timing = meter_.timing(i);
    seconds += products_[i].times * timing.seconds;
    plain_seconds += products_[i].times * timing.plain_seconds;
  }
  return {flops() / seconds, flops() / plain_seconds};
}

double CeilingMeter::share(std::span<const double> flops_per_second) const {
  std::vector<double> shares;
  for (size_t pass = 0; pass < flops_per_second.size(); ++pass) {
    double seconds = 0;
    for (size_t i = 0; i < products_.size(); ++i)
      seconds += products_[i].times * meter_.seconds(i, meter_.timing(i).layout, static_cast<int>(pass));
    shares.push_back(flops_per_second[pass] * seconds / flops());
  }
  return median(std::move(shares));
}

}  // namespace trireme
