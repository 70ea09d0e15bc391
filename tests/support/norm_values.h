#pragma once
// What an optimizer on the host computes of the norm.

#include <cmath>
#include <vector>

#include "base/exact_sum.h"
#include "comm/scalars.h"
#include "optim/optimizer.h"

namespace trireme {

/// Optimizer::finish_exchange(), and its values.
inline std::vector<double> finish_exchange(Optimizer& optimizer, Context& context) {
  std::vector<double> norms(static_cast<size_t>(optimizer.norm_values()));
  optimizer.finish_exchange(context, View(std::span(norms), {optimizer.norm_values()}));
  return norms;
}

/// The norm, if these are the values of all ranks.
inline double norm_of(std::span<const double> values) {
  ExactSum sum;
  for (const double value : values) sum.add(value);
  return std::sqrt(sum.value());
}

/// The norm of a gradient that the ranks of a group share.
inline double norm_of(std::span<const double> own, Communicator& group) {
  ExactSum sum;
  for (const double value : own) sum.add(value);
  std::vector<int64_t> digits(sum.digits().begin(), sum.digits().end());
  Scalars(group).sum(digits);
  return std::sqrt(ExactSum(std::span(digits).first<ExactSum::kDigits>()).value());
}

}  // namespace trireme
