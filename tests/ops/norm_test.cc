#include "tests/ops/norm_cases.h"

namespace trireme::test {
namespace {

struct Norm {
  Tensor x, w, b, dy, dx, dw, db, y, mean, rstd;

  Norm(DType a, int64_t rows, int64_t width, double shift = 0.3) {
    const DType s = a == DType::f64 ? DType::f64 : DType::f32;
    x = Tensor::random(a, {rows, width}, 1, 1.5, shift);
    w = Tensor::random(a, {width}, 2, 0.2, 1);
    b = Tensor::random(a, {width}, 3, 0.1);
    dy = Tensor::random(a, {rows, width}, 4);
    dx = Tensor::random(a, {rows, width}, 5);
    dw = Tensor::random(s, {width}, 6);
    db = Tensor::random(s, {width}, 7);
    y = Tensor(a, {rows, width});
    mean = Tensor(s, {rows});
    rstd = Tensor(s, {rows});
  }
  Norm wide() const {
    Norm n = *this;
    for (Tensor* t : {&n.x, &n.w, &n.b, &n.dy, &n.dx, &n.dw, &n.db, &n.y, &n.mean, &n.rstd}) *t = t->wide();
    return n;
  }
  void forward(Device& d, bool bias = true) {
    d.ops->layer_norm(d.context, x.view(), w.view(), bias ? b.view() : View(), 1e-5f, y.view(), mean.view(),
                      rstd.view());
  }
  void backward(Device& d, Write write, bool bias = true) {
    d.ops->layer_norm_backward(d.context, dy.view(), x.view(), w.view(), mean.view(), rstd.view(), dx.view(), dw.view(),
                               bias ? db.view() : View(), write);
  }
};

class LayerNorm : public CpuOp {};
INSTANTIATE_TEST_SUITE_P(Cpu, LayerNorm, every_case(), case_name);

TEST_P(LayerNorm, ForwardEqualsTheReference) {
  for (int64_t rows : kRows)
    for (int64_t width : kWidths)
      for (bool bias : {true, false}) {
        Norm got(dtype(), rows, width);
        Norm want = got.wide();
        got.forward(*cpu, bias);
        want.forward(*reference, bias);
        const auto what = fmt::format("rows {} width {} bias {}", rows, width, bias);
        // The row's sums cost up to a few units in the last place of its largest value.
        expect_close(got.y, want.y, GetParam().activation(4), "y, " + what);
        expect_close(got.mean, want.mean, {1e-6, 1e-6}, "mean, " + what);
        expect_close(got.rstd, want.rstd, {2e-6, 0}, "rstd, " + what);
      }
}

TEST_P(LayerNorm, AFarMeanDoesNotSpoilTheVariance) {
  Norm got(dtype(), 5, 768, 1000);
  Norm want = got.wide();
  got.forward(*cpu);
  want.forward(*reference);
  expect_close(got.rstd, want.rstd, {1e-4, 0}, "rstd");
}

TEST_P(LayerNorm, ANanMakesItsRowNanAndNoOther) { expect_nan_stays_in_its_row<Norm>(dtype(), *cpu); }

TEST_P(LayerNorm, BackwardEqualsTheReference) {
  for (int64_t rows : kRows)
    for (int64_t width : kWidths)
      for (Write write : {Write::overwrite, Write::add}) {
        Norm got(dtype(), rows, width);
        got.forward(*cpu);
        Norm want = got.wide();
        got.backward(*cpu, write);
        want.backward(*reference, write);
        const auto what = fmt::format("rows {} width {}", rows, width);
        // rstd is 300 where a row has one element: its rounding errors are scaled by it.
        expect_close(got.dx, want.dx, GetParam().activation(width == 1 ? 400 : 8), "dx, " + what);
        expect_close(got.dw, want.dw, {2e-6, 2e-5}, "dw, " + what);
        expect_close(got.db, want.db, {2e-6, 2e-5}, "db, " + what);
      }
}

TEST_P(LayerNorm, BackwardWithoutABiasLeavesItsGradientAlone) {
  Norm got(dtype(), 9, 48);
  got.forward(*cpu);
  const Norm before = got;
  Norm with_bias = got;
  got.backward(*cpu, Write::overwrite, false);
  with_bias.backward(*cpu, Write::overwrite, true);
  EXPECT_TRUE(got.db == before.db);
  EXPECT_TRUE(got.dw == with_bias.dw);
  EXPECT_TRUE(got.dx == with_bias.dx);
}

TEST_P(LayerNorm, BackwardOfAFrozenGainLeavesItsGradientAlone) {
  for (Device* device : {cpu.get(), reference.get()}) {
    Norm got = device == cpu.get() ? Norm(dtype(), 9, 48) : Norm(DType::f64, 9, 48);
    got.forward(*device);
    Norm all = got;
    const auto backward = [&](Norm& n, View dw, View db) {
      device->ops->layer_norm_backward(device->context, n.dy.view(), n.x.view(), n.w.view(), n.mean.view(),
                                       n.rstd.view(), n.dx.view(), dw, db, Write::overwrite);
    };
    Norm none = got;
    const Norm before = got;
    backward(got, {}, got.db.view());
    backward(none, {}, {});
    all.backward(*device, Write::overwrite);
    EXPECT_TRUE(got.dw == before.dw && none.dw == before.dw && none.db == before.db);
    EXPECT_TRUE(got.db == all.db);
    EXPECT_TRUE(got.dx == all.dx && none.dx == all.dx);
  }
}

TEST_P(LayerNorm, TwoRunsGiveTheSameBits) {
  Norm first(dtype(), 130, 768);
  first.forward(*cpu);
  Norm second = first;
  first.backward(*cpu, Write::add);
  second.backward(*cpu, Write::add);
  EXPECT_TRUE(first.dw == second.dw && first.db == second.db && first.dx == second.dx);
}

TEST_P(LayerNorm, AddIsTheOverwriteSumAddedOnce) { expect_same_bits_and_one_addition(Norm(dtype(), 130, 48), *cpu); }

TEST(LayerNormReference, BackwardEqualsFiniteDifferences) {
  const auto device = Device::reference();
  Norm n(DType::f64, 3, 7);
  n.forward(*device);
  for (size_t i = 0; i < n.dx.size(); ++i) n.dx.set(i, 0);
  n.backward(*device, Write::overwrite);
  expect_gradient(loss_of(n, &Norm::x, *device), n.x, n.dx, "dx");
  expect_gradient(loss_of(n, &Norm::w, *device), n.w, n.dw, "dw");
  expect_gradient(loss_of(n, &Norm::b, *device), n.b, n.db, "db");
}

}  // namespace
}  // namespace trireme::test
