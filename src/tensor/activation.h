#pragma once
#include <cstdint>

#include "base/names.h"

namespace trireme {

/// What an operator applies to each element (ops/ops.h has the formulas).
enum class Activation : uint8_t { gelu_tanh, gelu_erf, relu, tanh, silu, relu2 };

template <>
struct Names<Activation> {
  static constexpr Named<Activation> kAll[] = {{"gelu-tanh", Activation::gelu_tanh}, {"gelu-erf", Activation::gelu_erf},
                                               {"relu", Activation::relu},           {"tanh", Activation::tanh},
                                               {"silu", Activation::silu},           {"relu2", Activation::relu2}};
  /// Names of transformers; the first name of each value is the one that is exported.
  static constexpr Named<Activation> kHuggingFace[] = {
      {"gelu_new", Activation::gelu_tanh},  {"gelu_pytorch_tanh", Activation::gelu_tanh},
      {"gelu_fast", Activation::gelu_tanh}, {"gelu", Activation::gelu_erf},
      {"relu", Activation::relu},           {"tanh", Activation::tanh},
      {"silu", Activation::silu},           {"swish", Activation::silu},
      {"relu2", Activation::relu2}};
};

}  // namespace trireme
