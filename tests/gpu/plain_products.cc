#include "tests/gpu/plain_products.h"

#include <optional>
#include <vector>

#include "cuda/launch.h"
#include "cuda/product_choices.h"

namespace trireme {
namespace {

float value(ConstView x, int64_t at) {
  if (x.dtype() == DType::bf16) return to_float(x.as<bf16_t>()[at]);
  if (x.dtype() == DType::f16) return to_float(x.as<f16_t>()[at]);
  return x.as<float>()[at];
}

/// As f64, [rows, columns] of the operand after op.
std::vector<double> operand(ConstView x, bool transposed) {
  const int64_t rows = x.shape()[0], columns = x.shape()[1];
  std::vector<double> y(static_cast<size_t>(x.count()));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t at = i * columns + j;
      y[static_cast<size_t>(transposed ? j * rows + i : at)] = static_cast<double>(value(x, at));
    }
  return y;
}

class PlainProducts final : public MatrixProducts {
 public:
  PlainProducts(const std::string& choices, bool times) : times_(times) {
    if (!choices.empty()) choices_.emplace(choices, "executor", 1);
  }
  void multiply(gpu::Stream, ConstView a, bool a_transposed, ConstView b, bool b_transposed, ConstView bias, float beta,
                View y) override {
    const auto m = static_cast<size_t>(a.shape()[a_transposed ? 1 : 0]);
    const auto k = static_cast<size_t>(a.shape()[a_transposed ? 0 : 1]);
    const auto n = static_cast<size_t>(b.shape()[b_transposed ? 0 : 1]);
    if (choices_ && times_) {
      const ProductKey key{a.shape()[0], a.shape()[1], b.shape()[0], b.shape()[1], a_transposed, b_transposed};
      if (!choices_->find(key)) choices_->add(key, {1});
    }
    const auto left = operand(a, a_transposed), right = operand(b, b_transposed);
    std::vector<double> sums(n);
    for (size_t i = 0; i < m; ++i) {
      std::fill(sums.begin(), sums.end(), 0);
      for (size_t l = 0; l < k; ++l)
        for (size_t j = 0; j < n; ++j) sums[j] += left[i * k + l] * right[l * n + j];
      for (size_t j = 0; j < n; ++j) {
        auto sum = static_cast<float>(sums[j]);
        const auto at = static_cast<int64_t>(i * n + j);
        if (!bias.empty()) sum += value(bias, static_cast<int64_t>(j));
        if (beta != 0) sum += value(y, at);
        if (y.dtype() == DType::bf16) {
          y.as<bf16_t>()[at] = to_bf16(sum);
        } else if (y.dtype() == DType::f16) {
          y.as<f16_t>()[at] = to_f16(sum);
        } else {
          y.as<float>()[at] = sum;
        }
      }
    }
  }

 private:
  std::optional<ProductChoices> choices_;
  bool times_;
};

}  // namespace

std::unique_ptr<MatrixProducts> make_plain_products(const std::string& choices, bool times) {
  return std::make_unique<PlainProducts>(choices, times);
}

gpu::Stream gpu_stream(DeviceStream&) { return nullptr; }

}  // namespace trireme
