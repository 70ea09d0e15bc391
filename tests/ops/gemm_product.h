#pragma once
// Matrix products of layers, for the tests of the kernels that compute them (panel_gemm.h, tile_panel_gemm.h).

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/cpu/panel_gemm.h"
#include "ops/cpu/rectangles.h"
#include "tests/ops/op_test.h"

namespace trireme::test {

/// Operands of a product that are columns of wider matrices, the result among values that have to stay.
struct GemmProduct {
  static constexpr int64_t kBeside = 3;  ///< columns of a and c that do not belong to the product

  /// also_k: of a second product, or 0; forward and input products only.
  GemmProduct(const GemmShape& s, DType type_of_c, bool adds, int64_t also = 0)
      : shape(s), sizes(sizes_of(s)), accumulate(adds), also_k(also) {
    const bool forward = s.kind == GemmKind::forward, weight = s.kind == GemmKind::weight;
    const int64_t rows_of_a = weight ? sizes.k : sizes.m, columns_of_a = weight ? sizes.m : sizes.k;
    a = Tensor::random(s.dtype, {rows_of_a, columns_of_a + kBeside}, 1);
    b = Tensor::random(s.dtype, {forward ? sizes.n : sizes.k, forward ? sizes.k : sizes.n}, 2);
    bias = Tensor::random(s.dtype, {forward ? sizes.n : 0}, 3);
    c = Tensor::random(type_of_c, {sizes.m, sizes.n + kBeside}, 4);
    also_a = Tensor::random(s.dtype, {sizes.m, also_k}, 5);
    also_b = Tensor::random(s.dtype, {forward ? sizes.n : also_k, forward ? also_k : sizes.n}, 6);
    strides = {columns_of_a + kBeside, sizes.n + kBeside};
  }

  PanelProduct into(Tensor& result) const {
    return {.shape = shape,
            .a = a.view(),
            .b = b.view(),
            .bias = bias.size() > 0 ? bias.view() : ConstView(),
            .c = result.view(),
            .strides = strides,
            .accumulate = accumulate,
            .also_a = also_k > 0 ? also_a.view() : ConstView(),
            .also_b = also_k > 0 ? also_b.view() : ConstView()};
  }

  /// What element [m, n] begins with, and operands of the sum that is added, k counted over both products.
  double begin(int64_t m, int64_t n) const {
    double sum = bias.size() > 0 ? bias.at(static_cast<size_t>(n)) : 0;
    if (accumulate) sum += c.at(static_cast<size_t>(m * strides.c + n));
    return sum;
  }
  double left(int64_t m, int64_t k) const {
    const bool weight = shape.kind == GemmKind::weight;
    return k < sizes.k ? a.at(static_cast<size_t>(weight ? k * strides.a + m : m * strides.a + k))
                       : also_a.at(static_cast<size_t>(m * also_k + k - sizes.k));
  }
  double right(int64_t k, int64_t n) const {
    const bool forward = shape.kind == GemmKind::forward;
    if (k < sizes.k) return b.at(static_cast<size_t>(forward ? n * sizes.k + k : k * sizes.n + n));
    return also_b.at(static_cast<size_t>(forward ? n * also_k + k - sizes.k : (k - sizes.k) * sizes.n + n));
  }
  double expected(int64_t m, int64_t n) const {
    double sum = begin(m, n);
    for (int64_t k = 0; k < sizes.k + also_k; ++k) sum += left(m, k) * right(k, n);
    return sum;
  }

  /// f(m, n) for every element where the product is small, for some where it is not.
  template <class F>
  void for_each_element(F&& f) const {
    const int64_t step = std::max<int64_t>(1, sizes.m * sizes.n * sizes.k / 4'000'000) | 1;
    for (int64_t i = 0; i < sizes.m * sizes.n; i += step) f(i / sizes.n, i % sizes.n);
  }
  double result(const Tensor& got, int64_t m, int64_t n) const {
    return got.at(static_cast<size_t>(m * strides.c + n));
  }

  void check(const Tensor& got) const {
    const double absolute = 1e-6 * std::sqrt(static_cast<double>(sizes.k)) * 4;
    const double relative = got.dtype() == DType::bf16 ? 0x1.1p-8 : 1e-6;
    for_each_element([&](int64_t m, int64_t n) {
      const double want = expected(m, n);
      ASSERT_NEAR(result(got, m, n), want, absolute + relative * std::abs(want)) << "row " << m << " column " << n;
    });
    for (int64_t m = 0; m < sizes.m; ++m)
      for (int64_t n = sizes.n; n < strides.c; ++n) {
        const auto i = static_cast<size_t>(m * strides.c + n);
        ASSERT_EQ(got.at(i), c.at(i)) << "row " << m << ", behind the last column";
      }
  }

  GemmShape shape;
  GemmSizes sizes;
  bool accumulate;
  int64_t also_k;
  Tensor a, b, bias, c, also_a, also_b;
  GemmStrides strides;
};

/// Every strip of every panel belongs to one thread.
inline void expect_each_once(const Rectangles& cut, int threads) {
  std::vector<int> owners(static_cast<size_t>(cut.strips * cut.panels));
  for (int64_t first = 0; first < cut.panels; first += cut.panels_at_once)
    for (int part = 0; part < threads; ++part) {
      const auto [strips, panels] = cut.of(part, first);
      for (int64_t s = strips.begin; s < strips.end; ++s)
        for (int64_t p = panels.begin; p < panels.end; ++p) ++owners[static_cast<size_t>(s * cut.panels + p)];
    }
  EXPECT_TRUE(std::ranges::all_of(owners, [](int n) { return n == 1; })) << threads << " threads";
}

}  // namespace trireme::test
