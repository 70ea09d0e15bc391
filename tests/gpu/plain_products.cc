#include "tests/gpu/plain_products.h"

#include <cmath>
#include <optional>
#include <vector>

#include "cuda/launch.h"
#include "cuda/product_choices.h"

namespace trireme {
namespace {

void store(View y, int64_t at, float value) {
  if (y.dtype() == DType::bf16) {
    y.as<bf16_t>()[at] = to_bf16(value);
  } else if (y.dtype() == DType::f16) {
    y.as<f16_t>()[at] = to_f16(value);
  } else {
    y.as<float>()[at] = value;
  }
}

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
  std::string name() const override { return "plain loops"; }
  void multiply(gpu::Stream, ConstView a, bool a_transposed, ConstView b, bool b_transposed, ConstView bias, float beta,
                View y) override {
    compute(a, a_transposed, b, b_transposed, bias,
            [&](int64_t at, float sum) { store(y, at, beta != 0 ? sum + value(y, at) : sum); });
  }
  bool multiply_gelu(gpu::Stream, ConstView x, ConstView w, ConstView bias, View pre, View y) override {
    compute(x, false, w, true, bias, [&](int64_t at, float sum) {
      store(pre, at, sum);
      store(y, at, 0.5f * sum * (1 + std::tanh(0.7978845608f * (sum + 0.044715f * sum * sum * sum))));
    });
    return true;
  }

 private:
  /// finish(place in the result, sum with the bias) for all places.
  template <class Finish>
  void compute(ConstView a, bool a_transposed, ConstView b, bool b_transposed, ConstView bias, const Finish& finish) {
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
        const auto sum = static_cast<float>(sums[j]);
        finish(static_cast<int64_t>(i * n + j), bias.empty() ? sum : sum + value(bias, static_cast<int64_t>(j)));
      }
    }
  }

  std::optional<ProductChoices> choices_;
  bool times_;
};

}  // namespace

std::unique_ptr<MatrixProducts> make_plain_products(const std::string& choices, bool times) {
  return std::make_unique<PlainProducts>(choices, times);
}

gpu::Stream gpu_stream(DeviceStream&) { return nullptr; }

}  // namespace trireme
