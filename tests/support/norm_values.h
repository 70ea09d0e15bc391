#pragma once
// What an optimizer on the host computes of the norm.

#include <vector>

#include "optim/optimizer.h"

namespace trireme {

/// Optimizer::finish_exchange(), and its values.
inline std::vector<double> finish_exchange(Optimizer& optimizer, Context& context) {
  std::vector<double> norms(static_cast<size_t>(optimizer.norm_values()));
  optimizer.finish_exchange(context, View(std::span(norms), {optimizer.norm_values()}));
  return norms;
}

}  // namespace trireme
