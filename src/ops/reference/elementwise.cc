#include <cmath>
#include <numbers>

#include "base/rng.h"
#include "ops/reference/reference_ops.h"

namespace trireme {
namespace {

const double kRootTwoOverPi = std::sqrt(2 / std::numbers::pi);
constexpr double kCubic = 0.044715;

double value(Activation f, double x) {
  switch (f) {
    case Activation::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(kRootTwoOverPi * (x + kCubic * x * x * x)));
    case Activation::gelu_erf:
      return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
    case Activation::tanh:
      return std::tanh(x);
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::relu2:
      return x < 0 ? 0 : x * x;
    default:
      return x < 0 ? 0 : x;
  }
}

double derivative(Activation f, double x) {
  switch (f) {
    case Activation::gelu_tanh: {
      const double t = std::tanh(kRootTwoOverPi * (x + kCubic * x * x * x));
      return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kRootTwoOverPi * (1 + 3 * kCubic * x * x);
    }
    case Activation::gelu_erf:
      return 0.5 * (1 + std::erf(x / std::numbers::sqrt2)) +
             x * std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
    case Activation::tanh:
      return 1 / (std::cosh(x) * std::cosh(x));
    case Activation::silu: {
      const double s = 1 / (1 + std::exp(-x));
      return s * (1 + x / (1 + std::exp(x)));
    }
    case Activation::relu2:
      return x > 0 ? 2 * x : 0;
    default:
      return x > 0 ? 1 : 0;
  }
}

/// 0 or 1 / (1 - rate).
double mask(const Dropout& dropout, int64_t row, int64_t channel) {
  if (dropout.rate == 0) return 1;
  const auto sample = static_cast<uint64_t>(dropout.sample.as<int64_t>()[row]);
  const auto position = static_cast<uint32_t>(dropout.position.as<int32_t>()[row]);
  const PhiloxCounter words = philox(dropout.key, {static_cast<uint32_t>(channel / 4), position,
                                                   static_cast<uint32_t>(sample), static_cast<uint32_t>(sample >> 32)});
  const double rate = static_cast<double>(dropout.rate);
  return words[static_cast<size_t>(channel % 4)] >= std::round(rate * 0x1p32) ? 1 / (1 - rate) : 0;
}

}  // namespace

void ReferenceOps::do_activation(Context&, ConstView x, Activation f, View y) {
  for (int64_t i = 0; i < x.count(); ++i) y.as<double>()[i] = value(f, x.as<double>()[i]);
}

void ReferenceOps::do_activation_backward(Context&, ConstView dy, ConstView x, Activation f, View dx) {
  for (int64_t i = 0; i < x.count(); ++i) dx.as<double>()[i] = dy.as<double>()[i] * derivative(f, x.as<double>()[i]);
}

void ReferenceOps::do_gated_activation(Context&, ConstView x, Activation f, View y) {
  for (int64_t i = 0; i < y.count(); ++i)
    y.as<double>()[i] = value(f, x.as<double>()[2 * i]) * x.as<double>()[2 * i + 1];
}

void ReferenceOps::do_gated_activation_backward(Context&, ConstView dy, ConstView x, Activation f, View dx) {
  for (int64_t i = 0; i < dy.count(); ++i) {
    const double gate = x.as<double>()[2 * i], up = x.as<double>()[2 * i + 1];
    dx.as<double>()[2 * i] = dy.as<double>()[i] * up * derivative(f, gate);
    dx.as<double>()[2 * i + 1] = dy.as<double>()[i] * value(f, gate);
  }
}

void ReferenceOps::do_dropout_add(Context&, ConstView x, ConstView residual, const Dropout& dropout, View y,
                                  float factor) {
  const int64_t width = x.shape()[1];
  for (int64_t i = 0; i < x.count(); ++i) {
    const double base = residual.empty() ? 0 : residual.as<double>()[i];
    y.as<double>()[i] = base + static_cast<double>(factor) * x.as<double>()[i] * mask(dropout, i / width, i % width);
  }
}

void ReferenceOps::do_dropout_backward(Context&, ConstView dy, const Dropout& dropout, View dx, float factor) {
  const int64_t width = dy.shape()[1];
  for (int64_t i = 0; i < dy.count(); ++i)
    dx.as<double>()[i] = static_cast<double>(factor) * dy.as<double>()[i] * mask(dropout, i / width, i % width);
}

}  // namespace trireme
