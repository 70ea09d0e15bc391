#include <cmath>

#include "tests/ops/norm_cases.h"

namespace trireme::test {
namespace {

struct Norm {
  Tensor x, w, dy, dx, dw, y, rstd;
  float offset = 0;

  Norm(DType a, int64_t rows, int64_t width, float offset_ = 0) : offset(offset_) {
    const DType s = a == DType::f64 ? DType::f64 : DType::f32;
    x = Tensor::random(a, {rows, width}, 1, 1.5, 0.3);
    w = Tensor::random(a, {width}, 2, 0.2, 1 - static_cast<double>(offset));
    dy = Tensor::random(a, {rows, width}, 4);
    dx = Tensor::random(a, {rows, width}, 5);
    dw = Tensor::random(s, {width}, 6);
    y = Tensor(a, {rows, width});
    rstd = Tensor(s, {rows});
  }
  Norm wide() const {
    Norm n = *this;
    for (Tensor* t : {&n.x, &n.w, &n.dy, &n.dx, &n.dw, &n.y, &n.rstd}) *t = t->wide();
    return n;
  }
  void forward(Device& d) { d.ops->rms_norm(d.context, x.view(), w.view(), offset, 1e-5f, y.view(), rstd.view()); }
  void backward(Device& d, Write write) {
    d.ops->rms_norm_backward(d.context, dy.view(), x.view(), w.view(), offset, rstd.view(), dx.view(), dw.view(),
                             write);
  }
};

class RmsNorm : public CpuOp {};
INSTANTIATE_TEST_SUITE_P(Cpu, RmsNorm, every_case(), case_name);

TEST_P(RmsNorm, ForwardEqualsTheReference) {
  for (int64_t rows : kRows)
    for (int64_t width : kWidths)
      for (float offset : {0.0f, 1.0f}) {
        Norm got(dtype(), rows, width, offset);
        Norm want = got.wide();
        got.forward(*cpu);
        want.forward(*reference);
        const auto what = fmt::format("rows {} width {} offset {}", rows, width, offset);
        expect_close(got.y, want.y, GetParam().activation(4), "y, " + what);
        expect_close(got.rstd, want.rstd, {2e-6, 0}, "rstd, " + what);
      }
}

TEST_P(RmsNorm, BackwardEqualsTheReference) {
  for (int64_t rows : kRows)
    for (int64_t width : kWidths)
      for (float offset : {0.0f, 1.0f})
        for (Write write : {Write::overwrite, Write::add}) {
          Norm got(dtype(), rows, width, offset);
          got.forward(*cpu);
          Norm want = got.wide();
          got.backward(*cpu, write);
          want.backward(*reference, write);
          const auto what = fmt::format("rows {} width {} offset {}", rows, width, offset);
          // A row of one element may be near 0: its rounding errors are scaled by rstd.
          expect_close(got.dx, want.dx, GetParam().activation(width == 1 ? 400 : 8), "dx, " + what);
          expect_close(got.dw, want.dw, {2e-6, 2e-5}, "dw, " + what);
        }
}

TEST_P(RmsNorm, ANanMakesItsRowNanAndNoOther) { expect_nan_stays_in_its_row<Norm>(dtype(), *cpu); }

TEST_P(RmsNorm, BackwardOfAFrozenGainLeavesItsGradientAlone) {
  for (Device* device : {cpu.get(), reference.get()}) {
    Norm got = device == cpu.get() ? Norm(dtype(), 9, 48) : Norm(DType::f64, 9, 48);
    got.forward(*device);
    Norm all = got;
    const Norm before = got;
    device->ops->rms_norm_backward(device->context, got.dy.view(), got.x.view(), got.w.view(), 0, got.rstd.view(),
                                   got.dx.view(), {}, Write::overwrite);
    all.backward(*device, Write::overwrite);
    EXPECT_TRUE(got.dw == before.dw);
    EXPECT_TRUE(got.dx == all.dx);
  }
}

TEST_P(RmsNorm, TwoRunsGiveTheSameBitsAndAddIsTheOverwriteSumAddedOnce) {
  expect_same_bits_and_one_addition(Norm(dtype(), 130, 768), *cpu);
}

TEST(RmsNormReference, BackwardEqualsFiniteDifferences) {
  const auto device = Device::reference();
  for (float offset : {0.0f, 1.0f}) {
    Norm n(DType::f64, 3, 7, offset);
    n.forward(*device);
    for (size_t i = 0; i < n.dx.size(); ++i) n.dx.set(i, 0);
    n.backward(*device, Write::overwrite);
    expect_gradient(loss_of(n, &Norm::x, *device), n.x, n.dx, "dx");
    expect_gradient(loss_of(n, &Norm::w, *device), n.w, n.dw, "dw");
  }
}

TEST(RmsNormReference, IsItsFormula) {
  const auto device = Device::reference();
  Norm n(DType::f64, 1, 2, 1);
  n.x = Tensor(DType::f64, {1, 2}, {3, 4});
  n.w = Tensor(DType::f64, {2}, {0, 1});
  n.forward(*device);
  const double rms = std::sqrt(12.5 + static_cast<double>(1e-5f));
  EXPECT_NEAR(n.y.at(0), 3 / rms, 1e-15);
  EXPECT_NEAR(n.y.at(1), 2 * 4 / rms, 1e-15);
}

}  // namespace
}  // namespace trireme::test
