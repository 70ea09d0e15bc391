#pragma once
// The squared norm of the complete gradient. Each rank computes the values of the chunks that it owns; their exact sum
// (base/exact_sum.h) has the same bits for any number of data ranks.

#include <functional>
#include <vector>

#include "ops/ops.h"
#include "optim/ownership.h"

namespace trireme {

/// What one rank of a mesh counts. Every value counts once: parameters that all tensor ranks hold count on the first
/// one, a tied matrix on the first stage.
class GradientNorm {
 public:
  /// ownership: of the table's flat elements, of which data rank `rank` counts its own.
  GradientNorm(const ParameterTable& table, const Ownership& ownership, int rank);

  /// summed(first, count): the gradient of elements that the rank owns. values: [count()] f64, of the operators'
  /// device.
  void write_values(const std::function<View(int64_t, int64_t)>& summed, Ops& ops, Context& context, View values) const;
  /// Values of this rank.
  int64_t count() const { return count_; }

 private:
  std::vector<ParameterRange> parts_;  ///< adjacent chunks of one parameter
  int64_t count_ = 0;
};

}  // namespace trireme
