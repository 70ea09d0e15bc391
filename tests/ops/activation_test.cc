#include "tests/ops/op_test.h"

namespace trireme::test {
namespace {

constexpr Activation kGates[] = {Activation::gelu_tanh, Activation::gelu_erf, Activation::relu,
                                 Activation::silu};  // x times a gate
constexpr Activation kAll[] = {Activation::gelu_tanh, Activation::gelu_erf, Activation::relu,
                               Activation::tanh,      Activation::silu,     Activation::relu2};

class Activations : public CpuOp {};
INSTANTIATE_TEST_SUITE_P(Cpu, Activations, every_case(), case_name);

TEST_P(Activations, ForwardEqualsTheReference) {
  for (Activation f : kAll)
    for (int64_t n : {0, 1, 7, 48, 1600, 20001}) {
      const Tensor x = Tensor::random(dtype(), {n}, 1, 3);
      Tensor y(dtype(), {n}), want(DType::f64, {n});
      cpu->ops->activation(cpu->context, x.view(), f, y.view());
      reference->ops->activation(reference->context, x.wide().view(), f, want.view());
      expect_close(y, want, GetParam().activation(), fmt::format("f {} n {}", static_cast<int>(f), n));
    }
}

TEST_P(Activations, BackwardEqualsTheReference) {
  for (Activation f : kAll)
    for (int64_t n : {0, 1, 7, 48, 1600, 20001}) {
      const Tensor x = Tensor::random(dtype(), {n}, 1, 3), dy = Tensor::random(dtype(), {n}, 2);
      Tensor dx(dtype(), {n}), want(DType::f64, {n});
      cpu->ops->activation_backward(cpu->context, dy.view(), x.view(), f, dx.view());
      reference->ops->activation_backward(reference->context, dy.wide().view(), x.wide().view(), f, want.view());
      expect_close(dx, want, GetParam().activation(2), fmt::format("f {} n {}", static_cast<int>(f), n));
    }
}

TEST_P(Activations, MayRunInPlace) {
  for (Activation f : kAll) {
    const Tensor x = Tensor::random(dtype(), {1003}, 1, 3), dy = Tensor::random(dtype(), {1003}, 2);
    Tensor apart(dtype(), {1003}), in_place = x;
    cpu->ops->activation(cpu->context, x.view(), f, apart.view());
    cpu->ops->activation(cpu->context, in_place.view(), f, in_place.view());
    EXPECT_TRUE(apart == in_place);
    in_place = dy;
    cpu->ops->activation_backward(cpu->context, dy.view(), x.view(), f, apart.view());
    cpu->ops->activation_backward(cpu->context, in_place.view(), x.view(), f, in_place.view());
    EXPECT_TRUE(apart == in_place);
  }
}

/// x from -12 to 12 in steps of 1/512: the relative error of the tails, which sampling does not reach.
Tensor fine_grid() {
  Tensor x(DType::f32, {24 * 512 + 1});
  for (size_t i = 0; i < x.size(); ++i) x.set(i, static_cast<double>(i) / 512 - 12);
  return x;
}

TEST(ActivationAccuracy, TanhIsWithinTwoRoundingsOfOne) {
  const auto cpu = Device::cpu(1), reference = Device::reference();
  const Tensor x = fine_grid();
  Tensor y(DType::f32, {24 * 512 + 1}), want(DType::f64, {24 * 512 + 1});
  cpu->ops->activation(cpu->context, x.view(), Activation::tanh, y.view());
  reference->ops->activation(reference->context, x.wide().view(), Activation::tanh, want.view());
  expect_close(y, want, {0, 2e-7}, "y");
}

TEST(ActivationAccuracy, GeluIsAccurateToF32OverItsWholeRange) {
  const auto cpu = Device::cpu(1), reference = Device::reference();
  const Tensor x = fine_grid(), ones(DType::f32, x.view().shape(), std::vector<double>(x.size(), 1));
  for (Activation f : kGates) {
    Tensor y = x, slope = x, want_y = x.wide(), want_slope = x.wide();
    cpu->ops->activation(cpu->context, x.view(), f, y.view());
    cpu->ops->activation_backward(cpu->context, ones.view(), x.view(), f, slope.view());
    reference->ops->activation(reference->context, x.wide().view(), f, want_y.view());
    reference->ops->activation_backward(reference->context, ones.wide().view(), x.wide().view(), f, want_slope.view());
    // A product of up to 5 with the exponential's argument scales its rounding error of 2^-24.
    const bool exact = f == Activation::relu;
    expect_close(y, want_y, {exact ? 0 : 1e-6, exact ? 0 : 1e-9}, "y");
    expect_close(slope, want_slope, {exact ? 0 : 4e-7, exact ? 0 : 4e-7}, "slope");
    // The negative tail of the erf form keeps its relative accuracy: the exponent reaches 72, and 1e-5 is 2.3 times its
    // rounding error.
    for (size_t i = 0; f == Activation::gelu_erf && x.at(i) <= -2; ++i) {
      const double tail = 0.5 * x.at(i) * std::erfc(-x.at(i) / std::sqrt(2.0));
      EXPECT_NEAR(y.at(i), tail, 1e-5 * std::abs(tail)) << x.at(i);
    }
  }
}

TEST_P(Activations, TanhIsFlatAtInfinityAndNanPassesThrough) {
  const Tensor x(dtype(), {4}, {INFINITY, -1e30, 0, NAN}), dy(dtype(), {4}, {1, 1, 1, 1});
  Tensor y(dtype(), {4}), dx(dtype(), {4});
  cpu->ops->activation(cpu->context, x.view(), Activation::tanh, y.view());
  cpu->ops->activation_backward(cpu->context, dy.view(), x.view(), Activation::tanh, dx.view());
  EXPECT_EQ(y.at(0), 1);
  EXPECT_EQ(y.at(1), -1);
  EXPECT_EQ(y.at(2), 0);
  EXPECT_TRUE(std::isnan(y.at(3)));
  EXPECT_EQ(dx.at(0), 0);
  EXPECT_EQ(dx.at(1), 0);
  EXPECT_EQ(dx.at(2), 1);
  EXPECT_TRUE(std::isnan(dx.at(3)));
}

TEST_P(Activations, SquaredReluPassesNanAndIsZeroBelowZero) {
  const Tensor x(dtype(), {4}, {3, -2, 0, NAN}), dy(dtype(), {4}, {1, 1, 1, 1});
  Tensor y(dtype(), {4}), dx(dtype(), {4});
  cpu->ops->activation(cpu->context, x.view(), Activation::relu2, y.view());
  cpu->ops->activation_backward(cpu->context, dy.view(), x.view(), Activation::relu2, dx.view());
  for (const auto& [i, value, slope] : {std::tuple<size_t, double, double>{0, 9, 6}, {1, 0, 0}, {2, 0, 0}}) {
    EXPECT_EQ(y.at(i), value);
    EXPECT_EQ(dx.at(i), slope);
  }
  EXPECT_TRUE(std::isnan(y.at(3)) && std::isnan(dx.at(3)));
}

TEST_P(Activations, InfinitiesAndNanPassThrough) {
  const double large = dtype() == DType::f16 ? 6e4 : 1e30;
  for (Activation f : kGates) {
    const Tensor x(dtype(), {4}, {INFINITY, -large, large, NAN}), dy(dtype(), {4}, {1, 1, 1, 1});
    Tensor y(dtype(), {4}), dx(dtype(), {4});
    cpu->ops->activation(cpu->context, x.view(), f, y.view());
    cpu->ops->activation_backward(cpu->context, dy.view(), x.view(), f, dx.view());
    EXPECT_EQ(y.at(0), INFINITY);
    EXPECT_EQ(y.at(1), 0);
    EXPECT_EQ(y.at(2), x.at(2));
    EXPECT_TRUE(std::isnan(y.at(3)));
    EXPECT_EQ(dx.at(0), 1);
    EXPECT_NEAR(dx.at(1), 0, 1e-35);
    EXPECT_EQ(dx.at(2), 1);
    EXPECT_TRUE(f == Activation::relu || std::isnan(dx.at(3)));
  }
}

TEST_P(Activations, GatedOnesEqualTheReferenceBothWays) {
  for (Activation f : kAll)
    for (int64_t rows : kRows)
      for (int64_t width : kWidths) {
        const Tensor x = Tensor::random(dtype(), {rows, 2 * width}, 1, 2),
                     dy = Tensor::random(dtype(), {rows, width}, 2);
        Tensor y(dtype(), {rows, width}), want_y(DType::f64, {rows, width});
        Tensor dx(dtype(), {rows, 2 * width}), want_dx(DType::f64, {rows, 2 * width});
        cpu->ops->gated_activation(cpu->context, x.view(), f, y.view());
        reference->ops->gated_activation(reference->context, x.wide().view(), f, want_y.view());
        cpu->ops->gated_activation_backward(cpu->context, dy.view(), x.view(), f, dx.view());
        reference->ops->gated_activation_backward(reference->context, dy.wide().view(), x.wide().view(), f,
                                                  want_dx.view());
        const auto what = fmt::format("f {}, {} x {}", static_cast<int>(f), rows, width);
        expect_close(y, want_y, GetParam().activation(4), "y, " + what);
        expect_close(dx, want_dx, GetParam().activation(16), "dx, " + what);
      }
}

TEST(GatedActivation, IsTheActivationOfTheFirstTimesTheSecond) {
  const auto cpu = Device::cpu(1);
  const Tensor x(DType::f32, {2, 4}, {1, 10, -1, 10, 2, 3, 0, 5});
  Tensor y(DType::f32, {2, 2});
  cpu->ops->gated_activation(cpu->context, x.view(), Activation::relu, y.view());
  EXPECT_EQ(y.values(), (std::vector<double>{10, 0, 6, 0}));
}

TEST(ActivationReference, GatedBackwardEqualsFiniteDifferences) {
  const auto device = Device::reference();
  for (Activation f : kAll) {
    const Tensor x = Tensor::random(DType::f64, {3, 14}, 1), dy = Tensor::random(DType::f64, {3, 7}, 2);
    Tensor y = dy, dx = x;
    device->ops->gated_activation_backward(device->context, dy.view(), x.view(), f, dx.view());
    const auto loss = [&](const Tensor& at) {
      device->ops->gated_activation(device->context, at.view(), f, y.view());
      return dot(y, dy);
    };
    expect_gradient(loss, x, dx, fmt::format("f {}", static_cast<int>(f)));
  }
}

TEST(ActivationReference, BackwardEqualsFiniteDifferences) {
  const auto device = Device::reference();
  for (Activation f : kAll) {
    const Tensor x = Tensor::random(DType::f64, {37}, 1), dy = Tensor::random(DType::f64, {37}, 2);
    Tensor y = x, dx = x;
    device->ops->activation_backward(device->context, dy.view(), x.view(), f, dx.view());
    const auto loss = [&](const Tensor& at) {
      device->ops->activation(device->context, at.view(), f, y.view());
      return dot(y, dy);
    };
    expect_gradient(loss, x, dx, fmt::format("f {}", static_cast<int>(f)));
  }
}

}  // namespace
}  // namespace trireme::test
