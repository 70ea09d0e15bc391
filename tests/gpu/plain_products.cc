#include "tests/gpu/plain_products.h"

#include <vector>

#include "cuda/launch.h"

namespace trireme {
namespace {

/// As f64, [rows, columns] of the operand after op.
std::vector<double> operand(ConstView x, bool transposed) {
  const int64_t rows = x.shape()[0], columns = x.shape()[1];
  std::vector<double> y(static_cast<size_t>(x.count()));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t at = i * columns + j;
      const float v = x.dtype() == DType::bf16 ? to_float(x.as<bf16_t>()[at]) : x.as<float>()[at];
      y[static_cast<size_t>(transposed ? j * rows + i : at)] = static_cast<double>(v);
    }
  return y;
}

class PlainProducts final : public MatrixProducts {
 public:
  void multiply(gpu::Stream, ConstView a, bool a_transposed, ConstView b, bool b_transposed, ConstView bias, float beta,
                View y) override {
    const auto m = static_cast<size_t>(a.shape()[a_transposed ? 1 : 0]);
    const auto k = static_cast<size_t>(a.shape()[a_transposed ? 0 : 1]);
    const auto n = static_cast<size_t>(b.shape()[b_transposed ? 0 : 1]);
    const auto left = operand(a, a_transposed), right = operand(b, b_transposed);
    std::vector<double> sums(n);
    for (size_t i = 0; i < m; ++i) {
      std::fill(sums.begin(), sums.end(), 0);
      for (size_t l = 0; l < k; ++l)
        for (size_t j = 0; j < n; ++j) sums[j] += left[i * k + l] * right[l * n + j];
      for (size_t j = 0; j < n; ++j) {
        auto sum = static_cast<float>(sums[j]);
        if (!bias.empty()) sum += bias.dtype() == DType::bf16 ? to_float(bias.as<bf16_t>()[j]) : bias.as<float>()[j];
        if (y.dtype() == DType::bf16) {
          bf16_t& to = y.as<bf16_t>()[i * n + j];
          to = to_bf16(beta == 0 ? sum : to_float(to) + sum);
        } else {
          float& to = y.as<float>()[i * n + j];
          to = beta == 0 ? sum : to + sum;
        }
      }
    }
  }
};

}  // namespace

std::unique_ptr<MatrixProducts> make_plain_products() { return std::make_unique<PlainProducts>(); }

gpu::Stream gpu_stream(DeviceStream&) { return nullptr; }

}  // namespace trireme
