#pragma once
// The arrays that training changes: weights and gradients, flat over the parameter table; and what the optimizer keeps
// of them, the int16 remainder that makes bf16 weights an exact f32 master and the two moments, of all elements or,
// where ranks share it (optim.shard), of those that this rank owns, behind each other. Sized by the table.
//
// Ranks may share gradients and weights, too. The flat arrays then are places that values pass through: of the
// gradients those on their way to the owners' sums, of the weights the owned ones and those that layers need just now.
// The memory of the others is released.

#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <vector>

#include "model/parameter_table.h"
#include "tensor/arena.h"

namespace trireme {

/// What a rank keeps of a state that data ranks share.
struct KeptState {
  std::vector<ParameterRange> owned{};  ///< ascending; none: everything, and nothing is shared
  bool gradients = false;               ///< sums of gradients of these alone
  bool weights = false;                 ///< weights of these alone
  bool operator==(const KeptState&) const = default;
};

/// The two running means that AdamW keeps of each element: of its gradient, and of the square of that.
enum class Moment : uint8_t { first, second };

class TrainingState {
 public:
  /// dtype: weights' type: f32, bf16, or f64 (reference). `moments` false leaves gradients and moments out (sampling,
  /// evaluation). kept: it has remainder and moments of what is owned. What is read and
  /// written here follows what was issued to the device's stream before.
  TrainingState(const ParameterTable& table, DType dtype, bool moments, KeptState kept = {},
                Device& device = host_device());

  View weights() const { return weights_; }      ///< [flat_count] dtype
  View gradients() const { return gradients_; }  ///< [gradient_count] f32 (f64)
  /// The gradient of elements [first, first + count) once it is summed over micro-batches and ranks; all owned where
  /// ranks share the gradients.
  View summed_gradient(int64_t first, int64_t count) const {
    return shares_gradients() ? sums_.rows_slice(place_of(first), count) : gradients_.rows_slice(first, count);
  }
  // Of owned elements: all in order, or those that for_owned() gives the place of. Written by write_weights(),
  // write_moment(), an update of owned() ones and the healing of a replica alone: an element's place in them is not its
  // place in the flat order.
  ConstView remainder() const { return remainder_; }  ///< i16 with bf16 weights, else empty
  ConstView moment1() const { return moment1_; }      ///< f32 (f64)
  ConstView moment2() const { return moment2_; }
  ConstView moment(Moment which) const { return which == Moment::first ? moment1_ : moment2_; }
  /// What an update changes of `count` owned elements that for_owned() gives the first and its place of.
  struct Owned {
    View weights, remainder, moment1, moment2;
  };
  Owned owned(int64_t first, int64_t count, int64_t place);
  /// Weights, remainder, moments: what replicas that hold the same have the same bits of, to be copied as it is.
  std::array<View, 4> replicated() { return {weights_, remainder_, moment1_, moment2_}; }
  bool is_sharded() const { return !kept_.owned.empty(); }
  bool shares_gradients() const { return kept_.gradients; }
  bool shares_weights() const { return kept_.weights; }
  /// run(first element, count, place of the first in remainder and moments) for each owned run of [begin, end).
  template <class Run>
  void for_owned(int64_t begin, int64_t end, Run run) const {
    if (!is_sharded()) return run(begin, end - begin, begin);
    auto range = first_owned(begin);
    for (; range != kept_.owned.end() && range->begin < end; ++range) {
      const int64_t first = std::max(begin, range->begin), last = std::min(end, range->end);
      run(first, last - first, places_[static_cast<size_t>(range - kept_.owned.begin())] + first - range->begin);
    }
  }
  /// The parts of [begin, end) of which it does not keep the weights: run(first element, count).
  template <class Run>
  void for_passing_weights(int64_t begin, int64_t end, Run run) const {
    if (!shares_weights()) return;
    for_owned(begin, end, [&](int64_t first, int64_t count, int64_t) {
      if (begin < first) run(begin, first - begin);
      begin = first + count;
    });
    if (begin < end) run(begin, end - begin);
  }
  size_t bytes() const { return arena_.peak(); }  ///< without what passes through
  /// What a state takes, without allocating it; of what passes through the most at a time.
  static size_t bytes_for(const ParameterTable& table, DType dtype, bool moments, const KeptState& kept = {});

  /// f32 master values of one parameter, padding rows left out: [stored_shape]. Not of a sharded state in bf16.
  void read_master(const Parameter& parameter, std::span<float> out) const;
  /// f32 master values of elements [first, first + out.size()), all owned where the weights are bf16.
  void read_weights(int64_t first, std::span<float> out) const;
  /// Sets weights (and remainder) of one parameter from f32 master values [stored_shape]; padding rows become zero.
  void write_master(const Parameter& parameter, std::span<const float> values);
  /// Sets elements [first, first + values.size()) of the flat weights (and owned ones' remainder) from f32 master
  /// values.
  void write_weights(int64_t first, std::span<const float> values);
  /// Owned ones of elements [first, first + out.size()) of one of the moments, each in its place of `out`.
  void read_moment(Moment which, int64_t first, std::span<float> out) const;
  /// Sets owned ones of elements [first, first + values.size()) of one of the moments.
  void write_moment(Moment which, int64_t first, std::span<const float> values);
  /// Zeroes the weights of a parameter's padding rows.
  void clear_padding(const Parameter& parameter);

 private:
  std::vector<ParameterRange>::const_iterator first_owned(int64_t begin) const {
    return std::ranges::upper_bound(kept_.owned, begin, {}, &ParameterRange::end);
  }
  /// Of an owned element.
  int64_t place_of(int64_t element) const {
    const auto range = first_owned(element);
    return places_[static_cast<size_t>(range - kept_.owned.begin())] + element - range->begin;
  }

  KeptState kept_;
  std::vector<int64_t> places_;  ///< of the owned ranges
  Arena arena_, passing_;
  View weights_, remainder_, gradients_, sums_, moment1_, moment2_;
};

/// Fills every parameter by its Init: values are pure functions of (seed, parameter name, element of the whole tensor),
/// so they depend neither on layout nor on padding.
void initialize(TrainingState& state, const ParameterTable& table, uint64_t seed);

}  // namespace trireme
