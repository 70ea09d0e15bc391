#include "ops/cpu/panel_gemm.h"

#include "ops/cpu/isa.h"
#include "ops/cpu/panel_cut.h"
#include "tests/ops/gemm_product.h"

namespace trireme::test {
namespace {

void run(const GemmProduct& product, int threads, Tensor& result) {
  const GemmShape& s = product.shape;
  Arena scratch(panel_scratch_bytes(s.rows, s.in, s.out, s.dtype, threads));
  Context context{threads, &scratch};
  multiply_panels(context, product.into(result));
}

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
      const GemmProduct product(shape, c, accumulate);
      Tensor got = product.c;
      run(product, 2, got);
      product.check(got);
    });
}

TEST_P(Panels, GiveTheSameBitsOnAnyNumberOfThreads) {
  for (const Size& size : kSizes)
    for_each_product(size, [](const GemmShape& shape, DType c, bool accumulate) {
      const GemmProduct product(shape, c, accumulate);
      Tensor one = product.c;
      run(product, 1, one);
      for (const int threads : {2, 12}) {
        Tensor several = product.c;
        run(product, threads, several);
        EXPECT_EQ(one.values(), several.values()) << threads << " threads";
      }
    });
}

TEST(PanelCut, GivesEveryElementToOneThread) {
  for (const int threads : {1, 2, 3, 8, 30, 64})
    for (const Size& size : kSizes)
      for (const GemmKind kind : {GemmKind::forward, GemmKind::weight})
        expect_each_once(PanelCut({kind, size.rows, size.in, size.out, DType::f32}, DType::f32, threads), threads);
}

TEST(PanelCut, TakesWholeChunksOfAboutOneLength) {
  const PanelCut cut({GemmKind::forward, 128, 4098, 64, DType::bf16}, DType::bf16, 1);
  EXPECT_EQ(cut.chunk, 2080);  // 4096 elements of 64 columns are what a panel may have
}

}  // namespace
}  // namespace trireme::test
