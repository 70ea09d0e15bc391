#pragma once
// The squared norm of the complete gradient. Each data rank computes the values of the chunks that it owns; added in
// table order they give the same bits for any number of ranks.

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "comm/mesh.h"
#include "ops/ops.h"
#include "optim/ownership.h"

namespace trireme {

class GradientNorm {
 public:
  /// ownership: of the table's flat elements.
  GradientNorm(const ParameterTable& table, const Ownership& ownership);

  /// values = those of rank `rank`, in table order; elements after them stay as they are. summed(first, count): the
  /// gradient of elements that the rank owns. values: [values_per_rank()] f64, of the operators' device.
  void write_values(int rank, const std::function<View(int64_t, int64_t)>& summed, Ops& ops, Context& context,
                    View values) const;
  /// The largest number of values of a rank: all ranks send this number.
  size_t values_per_rank() const { return values_per_rank_; }
  /// Of each parameter in table order, f64; 0 of a frozen one. of_rank(r): rank r's values.
  std::vector<double> squares(const std::function<std::span<const double>(int)>& of_rank) const;

 private:
  /// Adjacent chunks of one parameter with one owner.
  struct Part {
    int64_t begin = 0, count = 0;  ///< elements
    int64_t chunks() const { return (count + kNormChunk - 1) / kNormChunk; }
  };
  std::vector<std::vector<Part>> parts_;         ///< by owner
  std::vector<std::vector<size_t>> parameters_;  ///< owners of each parameter's chunks
  size_t values_per_rank_ = 0;
};

/// The squared norm of a gradient spread over a mesh: every value counts once. Parameters that all tensor ranks hold
/// count on the first one, a tied matrix on the first stage. Sums per parameter, then over parameters in the table
/// order of the complete model.
class MeshNorm {
 public:
  /// of: the complete model. ownership_of: for one rank's table.
  MeshNorm(const ParameterTable& of, const MeshShape& mesh,
           const std::function<Ownership(const ParameterTable&)>& ownership_of);

  /// The largest number of values of a rank: all send this number.
  size_t values_per_rank() const { return values_per_rank_; }
  /// values: of all ranks of the mesh, in rank order.
  double squared(std::span<const double> values) const;

 private:
  /// One pair (stage, tensor rank) and its data ranks.
  struct Place {
    GradientNorm norm;
    int first_rank;
    std::vector<std::optional<size_t>> counted;  ///< by parameter of its table: index in the complete model's table
  };
  MeshShape mesh_;
  size_t parameters_ = 0, values_per_rank_ = 0;
  std::vector<Place> places_;
};

}  // namespace trireme
