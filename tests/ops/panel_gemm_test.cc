#include "ops/cpu/panel_gemm.h"

#include "ops/cpu/isa.h"
#include "ops/cpu/panel_cut.h"
#include "tests/ops/op_test.h"

namespace trireme::test {
namespace {

/// Operands of a product that are columns of wider matrices, the result among values that have to stay.
struct Product {
  static constexpr int64_t kBeside = 3;  ///< columns of a and c that do not belong to the product

  Product(const GemmShape& s, DType type_of_c, bool adds) : shape(s), sizes(sizes_of(s)), accumulate(adds) {
    const bool forward = s.kind == GemmKind::forward, weight = s.kind == GemmKind::weight;
    const int64_t rows_of_a = weight ? sizes.k : sizes.m, columns_of_a = weight ? sizes.m : sizes.k;
    a = Tensor::random(s.dtype, {rows_of_a, columns_of_a + kBeside}, 1);
    b = Tensor::random(s.dtype, {forward ? sizes.n : sizes.k, forward ? sizes.k : sizes.n}, 2);
    bias = Tensor::random(s.dtype, {forward ? sizes.n : 0}, 3);
    c = Tensor::random(type_of_c, {sizes.m, sizes.n + kBeside}, 4);
    strides = {columns_of_a + kBeside, sizes.n + kBeside};
  }

  void run(int threads, Tensor& result) const {
    Arena scratch(panel_scratch_bytes(shape.rows, shape.in, shape.out, shape.dtype, threads));
    Context context{threads, &scratch};
    multiply_panels(context, {.shape = shape,
                              .a = a.view(),
                              .b = b.view(),
                              .bias = bias.size() > 0 ? bias.view() : ConstView(),
                              .c = result.view(),
                              .strides = strides,
                              .accumulate = accumulate});
  }

  double expected(int64_t m, int64_t n) const {
    const bool forward = shape.kind == GemmKind::forward, weight = shape.kind == GemmKind::weight;
    double sum = bias.size() > 0 ? bias.at(static_cast<size_t>(n)) : 0;
    if (accumulate) sum += c.at(static_cast<size_t>(m * strides.c + n));
    for (int64_t k = 0; k < sizes.k; ++k)
      sum += a.at(static_cast<size_t>(weight ? k * strides.a + m : m * strides.a + k)) *
             b.at(static_cast<size_t>(forward ? n * sizes.k + k : k * sizes.n + n));
    return sum;
  }

  /// Every element where the product is small, some where it is not.
  void check(const Tensor& got) const {
    const int64_t step = std::max<int64_t>(1, sizes.m * sizes.n * sizes.k / 4'000'000) | 1;
    const double absolute = 1e-6 * std::sqrt(static_cast<double>(sizes.k)) * 4;
    const double relative = got.dtype() == DType::bf16 ? 0x1.1p-8 : 1e-6;
    for (int64_t i = 0; i < sizes.m * sizes.n; i += step) {
      const int64_t m = i / sizes.n, n = i % sizes.n;
      const double want = expected(m, n);
      ASSERT_NEAR(got.at(static_cast<size_t>(m * strides.c + n)), want, absolute + relative * std::abs(want))
          << "row " << m << " column " << n;
    }
    for (int64_t m = 0; m < sizes.m; ++m)
      for (int64_t n = sizes.n; n < strides.c; ++n) {
        const auto i = static_cast<size_t>(m * strides.c + n);
        ASSERT_EQ(got.at(i), c.at(i)) << "row " << m << ", behind the last column";
      }
  }

  GemmShape shape;
  GemmSizes sizes;
  bool accumulate;
  Tensor a, b, bias, c;
  GemmStrides strides;
};

struct Size {
  int64_t rows, in, out;
};
/// One, complete strips and panels, remainders of both, sums in several chunks of k, more panels than are packed at a
/// time, more strips than a thread packs at a time.
constexpr Size kSizes[] = {{1, 2, 1},     {6, 32, 64},   {7, 34, 65},    {128, 64, 192},  {131, 70, 130},
                           {13, 4500, 7}, {20, 6, 4300}, {1100, 40, 30}, {520, 16640, 4}, {33, 10, 1600}};

class Panels : public testing::TestWithParam<DType> {
 protected:
  /// f(product's shape, type of c, accumulate) for all that is possible of a size.
  template <class F>
  void for_each_product(const Size& s, F&& f) {
    for (const GemmKind kind : {GemmKind::forward, GemmKind::input, GemmKind::weight})
      for (const DType c : {DType::f32, DType::bf16})
        for (const bool accumulate : {false, true}) {
          const GemmShape shape{kind, s.rows, s.in, s.out, GetParam()};
          if (c == DType::bf16 && (kind == GemmKind::weight || accumulate || GetParam() == DType::f32)) continue;
          if (accumulate && kind == GemmKind::forward) continue;  // a bias is not added twice
          if (!has_panels(shape)) continue;
          SCOPED_TRACE(fmt::format("kind {} rows {} in {} out {} c {} accumulate {}", static_cast<int>(kind), s.rows,
                                   s.in, s.out, name_of(c), accumulate));
          f(shape, c, accumulate);
        }
  }

  void SetUp() override {
    cpu_isa();  // limits the kernels to the instruction set that is asked for
    if (GetParam() == DType::bf16 && !multiplies_pairs()) GTEST_SKIP() << "this CPU does not multiply pairs of bf16";
  }
};
INSTANTIATE_TEST_SUITE_P(Types, Panels, testing::Values(DType::f32, DType::bf16),
                         [](const auto& of) { return std::string(name_of(of.param)); });

TEST_P(Panels, EqualSumsInFloat64) {
  for (const Size& size : kSizes)
    for_each_product(size, [](const GemmShape& shape, DType c, bool accumulate) {
      const Product product(shape, c, accumulate);
      Tensor got = product.c;
      product.run(2, got);
      product.check(got);
    });
}

TEST_P(Panels, GiveTheSameBitsOnAnyNumberOfThreads) {
  for (const Size& size : kSizes)
    for_each_product(size, [](const GemmShape& shape, DType c, bool accumulate) {
      const Product product(shape, c, accumulate);
      Tensor one = product.c;
      product.run(1, one);
      for (const int threads : {2, 12}) {
        Tensor several = product.c;
        product.run(threads, several);
        EXPECT_EQ(one.values(), several.values()) << threads << " threads";
      }
    });
}

TEST(PanelCut, GivesEveryElementToOneThread) {
  for (const int threads : {1, 2, 3, 8, 30, 64})
    for (const Size& size : kSizes)
      for (const GemmKind kind : {GemmKind::forward, GemmKind::weight}) {
        const PanelCut cut({kind, size.rows, size.in, size.out, DType::f32}, DType::f32, threads);
        std::vector<int> owners(static_cast<size_t>(cut.strips * cut.panels));
        for (int64_t first = 0; first < cut.panels; first += cut.panels_at_once)
          for (int part = 0; part < threads; ++part) {
            const auto [strips, panels] = cut.of(part, first);
            for (int64_t s = strips.begin; s < strips.end; ++s)
              for (int64_t p = panels.begin; p < panels.end; ++p) ++owners[static_cast<size_t>(s * cut.panels + p)];
          }
        EXPECT_TRUE(std::ranges::all_of(owners, [](int n) { return n == 1; })) << threads << " threads";
      }
}

TEST(PanelCut, TakesWholeChunksOfAboutOneLength) {
  const PanelCut cut({GemmKind::forward, 128, 4098, 64, DType::bf16}, DType::bf16, 1);
  EXPECT_EQ(cut.chunk, 2080);  // 4096 elements of 64 columns are what a panel may have
}

}  // namespace
}  // namespace trireme::test
