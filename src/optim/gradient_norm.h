#pragma once
// The squared norm of the whole gradient, of which each data rank computes the values of the chunks that it owns. Added
// in table order they give the same bits whatever the number of ranks.

#include <span>
#include <vector>

#include "ops/ops.h"
#include "optim/ownership.h"

namespace trireme {

class GradientNorm {
 public:
  /// ownership: of the table's flat elements.
  GradientNorm(const ParameterTable& table, const Ownership& ownership);

  /// Rank `rank`'s values, in table order; as many on every rank, the last ones may be unused. Valid until the next
  /// call. gradients: the flat array, complete where the rank owns it.
  std::span<const double> values_of(int rank, View gradients, Ops& ops, Context& context);
  /// f64, per parameter in table order, then over parameters. values: of all ranks, in rank order.
  double squared(std::span<const double> values) const;

 private:
  /// Chunks of one parameter, side by side, of one owner.
  struct Part {
    int64_t begin = 0, count = 0;  ///< elements
    int64_t chunks() const { return (count + kNormChunk - 1) / kNormChunk; }
  };
  std::vector<std::vector<Part>> parts_;         ///< by owner
  std::vector<std::vector<size_t>> parameters_;  ///< owners of each parameter's chunks
  std::vector<double> values_;
};

}  // namespace trireme
