// A linear with the outputs of a low-rank one: inner b^T forward, inner a backward.

#include "tests/ops/op_test.h"
#include "tests/support/expect_error.h"

namespace trireme::test {
namespace {

struct LowRank {
  Tensor x, w, bias, b, y, dy, a, dx, inner;

  LowRank(DType type, int64_t rows, int64_t in, int64_t out, int64_t rank) {
    x = Tensor::random(type, {rows, in}, 1);
    w = Tensor::random(type, {out, in}, 2, 1 / std::sqrt(static_cast<double>(in)));
    bias = Tensor::random(type, {out}, 3);
    b = Tensor::random(type, {out, rank}, 4);
    dy = Tensor::random(type, {rows, out}, 5, 1 / std::sqrt(static_cast<double>(out)));
    a = Tensor::random(type, {rank, in}, 6);
    inner = Tensor::random(type, {rows, rank}, 7, 1 / std::sqrt(static_cast<double>(rank)));
    y = Tensor(type, {rows, out});
    dx = Tensor(type, {rows, in});
  }
  LowRank wide() const {
    LowRank l = *this;
    for (Tensor* t : {&l.x, &l.w, &l.bias, &l.b, &l.y, &l.dy, &l.a, &l.dx, &l.inner}) *t = t->wide();
    return l;
  }
  void forward(Device& d, bool with_bias = true) {
    d.ops->linear_low_rank(d.context, x.view(), w.view(), with_bias ? bias.view() : View(), inner.view(), b.view(),
                           y.view());
  }
  void backward(Device& d) {
    d.ops->linear_low_rank_backward_input(d.context, dy.view(), w.view(), inner.view(), a.view(), dx.view());
  }
};

struct Size {
  int64_t rows, in, out, rank;
};
/// No rows, few, those from which on a CPU has one pass; ranks that are odd, of one, of several vectors, above the
/// linear's sizes; more outputs than are multiplied at a time; chunks of a long sum.
constexpr Size kSizes[] = {{0, 8, 4, 2},       {1, 48, 144, 16},  {3, 7, 5, 1},       {129, 64, 48, 3},
                           {131, 64, 80, 16},  {128, 33, 65, 48}, {257, 40, 601, 32}, {140, 24, 16, 70},
                           {150, 16, 8200, 8}, {130, 4500, 70, 6}};

std::string name(const Size& s) { return fmt::format("rows {} in {} out {} rank {}", s.rows, s.in, s.out, s.rank); }

class LowRankOp : public CpuOp {};
INSTANTIATE_TEST_SUITE_P(Cpu, LowRankOp, every_case(), case_name);

TEST_P(LowRankOp, EqualsTheReference) {
  // Where a backend adds the two products as 16-bit numbers, each is rounded before the sum is.
  const bool rounds = dtype() != DType::f32;
  for (const Size& s : kSizes)
    for (const bool bias : {true, false}) {
      LowRank got(dtype(), s.rows, s.in, s.out, s.rank);
      LowRank want = got.wide();
      got.forward(*cpu, bias);
      want.forward(*reference, bias);
      got.backward(*cpu);
      want.backward(*reference);
      const Tolerance tolerance{rounding(dtype(), 1e-6), rounds ? 4e-2 : 1e-5};
      expect_close(got.y, want.y, tolerance, "y, " + name(s));
      expect_close(got.dx, want.dx, tolerance, "dx, " + name(s));
    }
}

TEST_P(LowRankOp, StaysWithinThePlannedScratch) {
  constexpr AttentionShape kAttention{.kv_heads = 1, .head_dim = 1, .scale = 1, .offsets = {}};
  for (const Size& s : kSizes) {
    if (s.rows == 0) continue;
    SCOPED_TRACE(name(s));
    LowRank l(dtype(), s.rows, s.in, s.out, s.rank);
    const int64_t width = std::max({s.in, s.out, s.rank});
    Arena result;  // the caller's, as of both products apart
    (void)result.take(dtype(), {s.rows, width});
    const size_t planned = result.peak() + cpu->ops->scratch_bytes({.dtype = GetParam().dtype,
                                                                    .rows = s.rows,
                                                                    .width = width,
                                                                    .weight_count = width * width,
                                                                    .rank = s.rank,
                                                                    .attention = kAttention,
                                                                    .threads = GetParam().threads});
    cpu->scratch = Arena(planned);
    cpu->context.scratch = &cpu->scratch;
    l.forward(*cpu);
    l.backward(*cpu);
    EXPECT_LE(cpu->scratch.peak(), planned);
    EXPECT_EQ(cpu->scratch.used(), 0U);
  }
}

TEST(ReferenceLowRank, BackwardEqualsFiniteDifferences) {
  // With inner as a constant, dx minus inner a is the gradient of the loss dy y.
  const auto device = Device::reference();
  LowRank l(DType::f64, 5, 4, 3, 2);
  l.a = Tensor(DType::f64, {2, 4});
  l.backward(*device);
  expect_gradient(
      [&](const Tensor& x) {
        LowRank other = l;
        other.x = x;
        other.forward(*device);
        return dot(other.y, l.dy);
      },
      l.x, l.dx, "dx");
}

TEST(ReferenceLowRank, RefusesOtherShapes) {
  const auto device = Device::reference();
  LowRank l(DType::f64, 5, 4, 3, 2);
  EXPECT_ERROR(
      device->ops->linear_low_rank(device->context, l.x.view(), l.w.view(), {}, l.inner.view(), l.a.view(), l.y.view()),
      ErrorKind::shape, "linear_low_rank: b is f64 [2, 4], expected f64 [3, 2]");
  EXPECT_ERROR(device->ops->linear_low_rank_backward_input(device->context, l.dy.view(), l.w.view(), l.inner.view(),
                                                           l.b.view(), l.dx.view()),
               ErrorKind::shape, "linear_low_rank_backward_input: a is f64 [3, 2], expected f64 [2, 4]");
}

}  // namespace
}  // namespace trireme::test
