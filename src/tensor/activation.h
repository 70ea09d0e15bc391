#pragma once
#include <cstdint>

#include "base/names.h"

namespace trireme {

/// What an operator applies to each element (ops/ops.h has the formulas).
enum class Activation : uint8_t { gelu_tanh, gelu_erf, relu, tanh };

template <>
struct Names<Activation> {
  static constexpr Named<Activation> kAll[] = {{"gelu-tanh", Activation::gelu_tanh},
                                               {"gelu-erf", Activation::gelu_erf},
                                               {"relu", Activation::relu},
                                               {"tanh", Activation::tanh}};
  /// Of transformers; the first name of each value is the one that is exported.
  static constexpr Named<Activation> kHuggingFace[] = {
      {"gelu_new", Activation::gelu_tanh},  {"gelu_pytorch_tanh", Activation::gelu_tanh},
      {"gelu_fast", Activation::gelu_tanh}, {"gelu", Activation::gelu_erf},
      {"relu", Activation::relu},           {"tanh", Activation::tanh}};
};

}  // namespace trireme
