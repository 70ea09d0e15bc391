#include "ops/cpu/tile_panel_gemm.h"

#include <random>

#include "ops/cpu/gemm.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/tile_cut.h"
#include "tests/ops/gemm_product.h"

namespace trireme::test {
namespace {

struct Size {
  int64_t rows, in, out;
  int64_t also;  ///< k of a second product
};
/// One, whole tiles and remainders of them, k in several parts (steps of a panel that are multiplied at a time, chunks
/// of a weight gradient), more strips than a thread packs at a time, more panels than are packed at a time.
constexpr Size kSizes[] = {{1, 1, 1, 1},       {16, 32, 16, 0},   {32, 64, 96, 32}, {33, 35, 65, 3},
                           {131, 70, 130, 70}, {13, 2300, 7, 16}, {17, 6, 1300, 4}, {2500, 40, 30, 8},
                           {1100, 33, 70, 5},  {3, 16640, 600, 0}};

void run(const GemmProduct& product, int threads, Tensor& result) {
  const GemmShape& s = product.shape;
  Arena scratch(tile_scratch_bytes(s.rows, s.in, s.out, threads, product.also_k));
  Context context{threads, &scratch};
  multiply_tiles(context, product.into(result));
  EXPECT_EQ(scratch.used(), 0U);
}

/// The sum that one tile instruction after the other makes of element [m, n].
float by_steps(const GemmProduct& p, int64_t m, int64_t n) {
  auto sum = static_cast<float>(p.begin(m, n));
  const auto add = [&](int64_t begin, int64_t end) {
    for (int64_t step = begin; step < end; step += tiles::kSteps) {
      float parts[2] = {};
      for (int64_t k = step; k < std::min(end, step + tiles::kSteps); ++k)
        parts[(k - begin) % 2] += static_cast<float>(p.left(m, k)) * static_cast<float>(p.right(k, n));
      sum += parts[0] + parts[1];
    }
  };
  add(0, p.sizes.k);
  add(p.sizes.k, p.sizes.k + p.also_k);
  return sum;
}

class TilePanels : public testing::Test {
 protected:
  void SetUp() override {
    cpu_isa();  // limits the kernels to the instruction set that is asked for
    if (!multiplies_tiles()) GTEST_SKIP() << "this CPU has no AMX";
  }
  /// f(product) for all that is possible of every size.
  template <class F>
  static void for_each_product(F&& f) {
    for (const Size& s : kSizes)
      for (const GemmKind kind : {GemmKind::forward, GemmKind::input, GemmKind::weight})
        for (const DType c : {DType::f32, DType::bf16})
          for (const bool accumulate : {false, true}) {
            if (c == DType::bf16 && (kind == GemmKind::weight || accumulate)) continue;
            if (accumulate && kind == GemmKind::forward) continue;  // a bias is not added twice
            SCOPED_TRACE(fmt::format("kind {} rows {} in {} out {} also {} c {} accumulate {}", static_cast<int>(kind),
                                     s.rows, s.in, s.out, s.also, name_of(c), accumulate));
            f(GemmProduct({kind, s.rows, s.in, s.out, DType::bf16}, c, accumulate,
                          kind == GemmKind::weight ? 0 : s.also));
          }
  }
};

TEST_F(TilePanels, EqualSumsInFloat64AndTheBitsOfTheirInstructions) {
  for_each_product([](const GemmProduct& product) {
    Tensor got = product.c;
    run(product, 2, got);
    product.check(got);
    int64_t different = 0;
    product.for_each_element([&](int64_t m, int64_t n) {
      const float want = by_steps(product, m, n);
      different +=
          product.result(got, m, n) != static_cast<double>(got.dtype() == DType::bf16 ? to_float(to_bf16(want)) : want);
    });
    EXPECT_EQ(different, 0) << "elements";
  });
}

TEST_F(TilePanels, GiveTheSameBitsOnAnyNumberOfThreads) {
  for_each_product([](const GemmProduct& product) {
    Tensor one = product.c;
    run(product, 1, one);
    for (const int threads : {2, 3, 4, 12}) {
      Tensor several = product.c;
      run(product, threads, several);
      EXPECT_EQ(one.values(), several.values()) << threads << " threads";
    }
  });
}

TEST_F(TilePanels, AgreeWithOneDnnAndAreMeasured) {
  if (cpu_isa() < Isa::avx512) GTEST_SKIP() << "this CPU does not multiply pairs of bf16";  // nor does oneDNN
  Gemm gemm;
  for (const GemmKind kind : {GemmKind::forward, GemmKind::input, GemmKind::weight}) {
    const GemmShape shape{kind, 150, 96, 70, DType::bf16};
    const bool forward = kind == GemmKind::forward, weight = kind == GemmKind::weight;
    const Tensor a = Tensor::random(DType::bf16, {shape.rows, forward ? shape.in : shape.out}, 1);
    const Tensor b = Tensor::random(DType::bf16, {weight ? shape.rows : shape.out, shape.in}, 2);
    Tensor ours(weight ? DType::f32 : DType::bf16, {weight ? shape.out : shape.rows, forward ? shape.out : shape.in});
    Tensor theirs = ours;
    Arena scratch(tile_scratch_bytes(shape.rows, shape.in, shape.out, 2));
    Context context{2, &scratch};
    EXPECT_GT(gemm.measure(context, shape, GemmLayout::tiles, a.view(), b.view(), ours.view()), 0);
    gemm.measure(context, shape, GemmLayout::plain, a.view(), b.view(), theirs.view());
    expect_close(ours, theirs.wide(), {weight ? 1e-6 : 0x1.1p-7, 5e-5}, fmt::format("kind {}", static_cast<int>(kind)));
  }
}

TEST(TileLayout, IsThatOfProductsInWhichOneDnnStaysBehind) {
  const auto takes = [](GemmKind kind, int64_t rows, int64_t in, int64_t out, DType dtype = DType::bf16) {
    return best_layout({kind, rows, in, out, dtype}) == GemmLayout::tiles;
  };
  const bool tiles = multiplies_tiles(), everywhere = emulates_tiles();
  EXPECT_EQ(takes(GemmKind::weight, 128, 64, 64), tiles);
  EXPECT_EQ(takes(GemmKind::weight, 127, 64, 64), everywhere);
  EXPECT_EQ(takes(GemmKind::weight, 4096, 63, 768), everywhere);
  EXPECT_EQ(takes(GemmKind::weight, 4096, 768, 8), everywhere);
  EXPECT_EQ(takes(GemmKind::forward, 640, 768, 8192), tiles);
  EXPECT_EQ(takes(GemmKind::forward, 4096, 768, 3072), everywhere);
  EXPECT_EQ(takes(GemmKind::input, 4096, 768, 3072), everywhere);
  EXPECT_FALSE(takes(GemmKind::weight, 4096, 768, 3072, DType::f32));
  EXPECT_EQ(may_take_tiles(128, DType::bf16), tiles);
  EXPECT_EQ(may_take_tiles(127, DType::bf16), everywhere);
}

TEST(TileCut, GivesEveryElementToOneThread) {
  for (const int threads : {1, 2, 3, 8, 30, 64})
    for (const Size& size : kSizes)
      for (const GemmKind kind : {GemmKind::forward, GemmKind::weight})
        expect_each_once(TileCut({kind, size.rows, size.in, size.out, DType::bf16}, threads), threads);
}

TEST(TileCut, FitsTheCachesAndThePlannedScratch) {
  const TileCut weight({GemmKind::weight, 4096, 768, 3072, DType::bf16}, 2);
  EXPECT_EQ(weight.chunk * tiles::kSteps, 1024);
  EXPECT_EQ(weight.strips_at_once, 16);
  EXPECT_EQ(weight.steps_at_once, 16);
  const TileCut head({GemmKind::forward, 640, 768, 8192, DType::bf16}, 2, 16);
  EXPECT_EQ(head.steps, 25);
  EXPECT_EQ(head.chunk, head.steps);
  EXPECT_EQ(head.steps_at_once, 13);

  std::mt19937 random(1);
  const auto below = [&](int64_t n) { return 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  for (int i = 0; i < 3000; ++i) {
    const int64_t rows = below(5000), in = below(20000), out = below(20000), also = below(100) - 1;
    const int threads = static_cast<int>(below(9));
    const size_t planned = tile_scratch_bytes(rows, in, out, threads, also);
    for (const GemmKind kind : {GemmKind::forward, GemmKind::input, GemmKind::weight})
      for (const bool smaller : {false, true}) {
        const GemmShape shape{kind, smaller ? below(rows) : rows, smaller ? below(in) : in, smaller ? below(out) : out,
                              DType::bf16};
        const TileCut cut(shape, threads, kind == GemmKind::weight ? 0 : also);
        Arena sizes;
        (void)sizes.take(DType::u8, {threads, cut.own_bytes});
        (void)sizes.take(DType::u8, {cut.shared_bytes});
        ASSERT_LE(sizes.peak(), planned) << fmt::format("kind {} rows {} in {} out {} also {} threads {}",
                                                        static_cast<int>(kind), shape.rows, shape.in, shape.out, also,
                                                        threads);
      }
  }
}

}  // namespace
}  // namespace trireme::test
