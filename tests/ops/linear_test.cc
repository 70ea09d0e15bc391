#include "tests/ops/op_test.h"

namespace trireme::test {
namespace {

struct Linear {
  Tensor x, w, bias, y, pre, dy, dx, dw, db;

  Linear(DType a, int64_t rows, int64_t in, int64_t out) {
    const DType s = a == DType::f64 ? DType::f64 : DType::f32;
    x = Tensor::random(a, {rows, in}, 1);
    w = Tensor::random(a, {out, in}, 2, 1 / std::sqrt(static_cast<double>(in)));
    bias = Tensor::random(a, {out}, 3);
    dy = Tensor::random(a, {rows, out}, 4);
    dw = Tensor::random(s, {out, in}, 5);
    db = Tensor::random(s, {out}, 6);
    y = Tensor(a, {rows, out});
    pre = Tensor(a, {rows, out});
    dx = Tensor(a, {rows, in});
  }
  Linear wide() const {
    Linear l = *this;
    for (Tensor* t : {&l.x, &l.w, &l.bias, &l.y, &l.pre, &l.dy, &l.dx, &l.dw, &l.db}) *t = t->wide();
    return l;
  }
  void forward(Device& d, bool with_bias = true) {
    d.ops->linear(d.context, x.view(), w.view(), with_bias ? bias.view() : View(), y.view());
  }
  void backward(Device& d, Write write) {
    d.ops->linear_backward_input(d.context, dy.view(), w.view(), dx.view());
    d.ops->linear_backward_weight(d.context, dy.view(), x.view(), dw.view(), write);
    d.ops->bias_backward(d.context, dy.view(), db.view(), write);
  }
};

struct Size {
  int64_t rows, in, out;
};
/// Odd sizes, sizes of one, no rows, sizes at which operands are packed, those of several blocks of outputs, and rows
/// of a weight that are complete pages apart.
constexpr Size kSizes[] = {{1, 1, 1},      {1, 48, 144},    {3, 7, 5},     {17, 33, 65},  {0, 8, 4},
                           {2, 1, 50},     {129, 64, 1},    {513, 40, 70}, {37, 80, 601}, {600, 130, 531},
                           {40, 24, 8201}, {523, 9, 17000}, {70, 3072, 7}};

class LinearOp : public CpuOp {
 protected:
  /// f32 sums of n products of size about 1 / sqrt(n) or 1; 16-bit outputs are rounded once on top.
  Tolerance products(double n, double scale) const {
    const double absolute = 4e-7 * std::sqrt(n) * scale + 1e-6 * scale;
    return {rounding(dtype(), 1e-6), absolute};
  }
  static std::string name(const Size& s) { return fmt::format("rows {} in {} out {}", s.rows, s.in, s.out); }
};
INSTANTIATE_TEST_SUITE_P(Cpu, LinearOp, every_case(), case_name);

TEST_P(LinearOp, ForwardEqualsTheReference) {
  for (const Size& s : kSizes)
    for (bool bias : {true, false}) {
      Linear got(dtype(), s.rows, s.in, s.out);
      Linear want = got.wide();
      got.forward(*cpu, bias);
      want.forward(*reference, bias);
      expect_close(got.y, want.y, products(1, 3), "y, " + name(s));
    }
}

TEST_P(LinearOp, BackwardEqualsTheReference) {
  for (const Size& s : kSizes)
    for (Write write : {Write::overwrite, Write::add}) {
      Linear got(dtype(), s.rows, s.in, s.out);
      Linear want = got.wide();
      got.backward(*cpu, write);
      want.backward(*reference, write);
      const auto rows = static_cast<double>(s.rows);
      expect_close(got.dx, want.dx, products(static_cast<double>(s.out), 3), "dx, " + name(s));
      // Weight gradients are f32 sums whatever the operands' type.
      expect_close(got.dw, want.dw, {1e-6, 2e-6 * (1 + std::sqrt(rows)) * GetParam().sums}, "dw, " + name(s));
      expect_close(got.db, want.db, {1e-6, 2e-6 * (1 + std::sqrt(rows))}, "db, " + name(s));
    }
}

TEST_P(LinearOp, WithActivationEqualsBothSteps) {
  for (Activation f : {Activation::gelu_tanh, Activation::relu}) {
    Linear fused(dtype(), 37, 48, 144), steps = fused;
    fused.y = Tensor(dtype(), {37, 144});
    cpu->ops->linear_activation(cpu->context, fused.x.view(), fused.w.view(), fused.bias.view(), f, fused.pre.view(),
                                fused.y.view());
    cpu->ops->linear(cpu->context, steps.x.view(), steps.w.view(), steps.bias.view(), steps.pre.view());
    cpu->ops->activation(cpu->context, steps.pre.view(), f, steps.y.view());
    if (cpu->ops->name() != "cuda" || dtype() != DType::bf16 || f != Activation::gelu_tanh) {
      EXPECT_TRUE(fused.pre == steps.pre && fused.y == steps.y);
      continue;
    }
    // There one product may do both, with f of the sum before it is rounded to pre, or after.
    Linear want = fused.wide();
    want.y = fused.y.wide();
    reference->ops->linear_activation(reference->context, want.x.view(), want.w.view(), want.bias.view(), f,
                                      want.pre.view(), want.y.view());
    Tolerance once = products(1, 3), twice = once;
    twice.relative *= 2;
    twice.absolute += once.relative;
    expect_close(fused.pre, want.pre, once, "pre");
    expect_close(fused.y, want.y, twice, "y");
  }
}

TEST_P(LinearOp, WithSoftmaxStatisticsEqualsBothSteps) {
  for (const int64_t rows : {0, 3, 40, 523})
    for (const auto& [out, classes] : {std::pair{50, 43}, {50, 0}, {8201, 8193}, {17000, 8000}, {16384, 16384}}) {
      constexpr int64_t kFirst = 2;
      Linear fused(dtype(), rows, 9, out), steps = fused;
      Tensor targets(DType::i32, {rows});
      for (int64_t row = 0; row < rows; ++row)
        targets.set(static_cast<size_t>(row), row % 4 == 3 ? -1 : static_cast<double>(row * 7919 % (classes + 3)));
      const Tensor nothing(DType::f32, {rows}, std::vector<double>(static_cast<size_t>(rows), 77));
      Tensor stats[2][3] = {{nothing, nothing, nothing}, {nothing, nothing, nothing}};
      cpu->ops->linear_softmax_stats(cpu->context, fused.x.view(), fused.w.view(), fused.bias.view(), targets.view(),
                                     kFirst, classes, fused.y.view(), stats[0][0].view(), stats[0][1].view(),
                                     stats[0][2].view());
      cpu->ops->linear(cpu->context, steps.x.view(), steps.w.view(), steps.bias.view(), steps.y.view());
      cpu->ops->softmax_stats(cpu->context, steps.y.view(), targets.view(), kFirst, classes, stats[1][0].view(),
                              stats[1][1].view(), stats[1][2].view());
      EXPECT_TRUE(fused.y == steps.y);
      for (int i = 0; i < 3; ++i) EXPECT_TRUE(stats[0][i] == stats[1][i]) << rows << " rows, " << out << ", " << i;
    }
}

TEST_P(LinearOp, AddIsTheOverwrittenValueAddedOnce) {
  Linear whole(dtype(), 600, 48, 530), added = whole;
  const Tensor before = whole.dw;
  whole.backward(*cpu, Write::overwrite);
  added.backward(*cpu, Write::add);
  for (size_t i = 0; i < before.size(); ++i)
    ASSERT_EQ(added.dw.at(i),
              static_cast<double>(static_cast<float>(before.at(i)) + static_cast<float>(whole.dw.at(i))));
}

TEST_P(LinearOp, GivesTheSameBitsTwice) {
  for (const Size& s : {Size{600, 130, 531}, Size{40, 24, 8201}}) {
    Linear a(dtype(), s.rows, s.in, s.out), b = a;
    for (Linear* l : {&a, &b}) {
      l->forward(*cpu);
      l->backward(*cpu, Write::overwrite);
    }
    EXPECT_TRUE(a.y == b.y && a.dx == b.dx && a.dw == b.dw && a.db == b.db);
  }
}

TEST_P(LinearOp, StaysWithinThePlannedScratch) {
  constexpr AttentionShape kAttention{.kv_heads = 1, .head_dim = 1, .scale = 1, .offsets = {}};
  for (const Size& s : kSizes)
    for (const int64_t wider : {0, 8}) {  // of two layers, the plan knows the greater width
      if (s.rows == 0) continue;
      SCOPED_TRACE(name(s));
      Linear l(dtype(), s.rows, s.in, s.out);
      const size_t planned = cpu->ops->scratch_bytes({.dtype = GetParam().dtype,
                                                      .rows = s.rows,
                                                      .width = std::max(s.in, s.out) + wider,
                                                      .weight_count = s.in * s.out,
                                                      .added_count = s.in * s.out,
                                                      .attention = kAttention,
                                                      .threads = GetParam().threads});
      cpu->scratch = Arena(planned);
      cpu->context.scratch = &cpu->scratch;
      l.forward(*cpu);
      l.backward(*cpu, Write::add);
      EXPECT_LE(cpu->scratch.peak(), planned);
      EXPECT_EQ(cpu->scratch.used(), 0u);
    }
}

TEST(ReferenceLinear, BackwardEqualsFiniteDifferences) {
  const auto device = Device::reference();
  Linear l(DType::f64, 5, 4, 3);
  l.backward(*device, Write::overwrite);
  const auto loss_of = [&](Tensor Linear::*moved) {
    return [&, moved](const Tensor& value) {
      Linear other = l;
      other.*moved = value;
      other.forward(*device);
      return dot(other.y, l.dy);
    };
  };
  expect_gradient(loss_of(&Linear::x), l.x, l.dx, "dx");
  expect_gradient(loss_of(&Linear::w), l.w, l.dw, "dw");
  expect_gradient(loss_of(&Linear::bias), l.bias, l.db, "db");
}

TEST(ReferenceLinear, AddsToExistingValues) {
  const auto device = Device::reference();
  Linear a(DType::f64, 5, 4, 3), b = a;
  a.backward(*device, Write::overwrite);
  const Tensor before = b.dw;
  b.backward(*device, Write::add);
  for (size_t i = 0; i < before.size(); ++i) EXPECT_DOUBLE_EQ(b.dw.at(i), before.at(i) + a.dw.at(i));
}

}  // namespace
}  // namespace trireme::test
