#pragma once
// The arrays that training changes: weights and gradients, flat over the parameter table; and what the optimizer keeps
// of them, the int16 remainder that makes bf16 weights an exact f32 master and the two moments, of all elements or,
// where ranks share it (optim.shard), of those that this rank owns, behind each other. One arena, sized by the table.

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

#include "model/parameter_table.h"
#include "tensor/arena.h"

namespace trireme {

class TrainingState {
 public:
  /// dtype: weights' type: f32, bf16, or f64 (reference). `moments` false leaves gradients and moments out (sampling,
  /// evaluation). owned: the elements of which it has remainder and moments, ascending; none: all. What is read and
  /// written here follows what was issued to the device's stream before.
  TrainingState(const ParameterTable& table, DType dtype, bool moments, std::vector<ParameterRange> owned = {},
                Device& device = host_device());

  View weights() const { return weights_; }      ///< [flat_count] dtype
  View gradients() const { return gradients_; }  ///< [gradient_count] f32 (f64)
  // Of owned elements: all in order, or those that for_owned() gives the place of.
  View remainder() const { return remainder_; }  ///< i16 with bf16 weights, else empty
  View moment1() const { return moment1_; }      ///< f32 (f64)
  View moment2() const { return moment2_; }
  bool is_sharded() const { return !owned_.empty(); }
  /// run(first element, count, place of the first in remainder and moments) for each owned run of [begin, end).
  template <class Run>
  void for_owned(int64_t begin, int64_t end, Run run) const {
    if (!is_sharded()) return run(begin, end - begin, begin);
    auto range = std::ranges::upper_bound(owned_, begin, {}, &ParameterRange::end);
    for (; range != owned_.end() && range->begin < end; ++range) {
      const int64_t first = std::max(begin, range->begin), last = std::min(end, range->end);
      run(first, last - first, places_[static_cast<size_t>(range - owned_.begin())] + first - range->begin);
    }
  }
  size_t bytes() const;
  /// What a state takes, without allocating it.
  static size_t bytes_for(const ParameterTable& table, DType dtype, bool moments,
                          const std::vector<ParameterRange>& owned = {});

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
  void read_moment(ConstView moment, int64_t first, std::span<float> out) const;
  /// Sets owned ones of elements [first, first + values.size()) of one of the moments.
  void write_moment(View moment, int64_t first, std::span<const float> values) const;
  /// Zeroes the weights of a parameter's padding rows.
  void clear_padding(const Parameter& parameter);

 private:
  std::vector<ParameterRange> owned_;  ///< none: all
  std::vector<int64_t> places_;        ///< of the ranges
  Arena arena_;
  View weights_, remainder_, gradients_, moment1_, moment2_;
};

/// Fills every parameter by its Init: values are pure functions of (seed, parameter name, element of the whole tensor),
/// so they depend neither on layout nor on padding.
void initialize(TrainingState& state, const ParameterTable& table, uint64_t seed);

/// XXH3 over all weights, and remainders where every rank has all of them, in table order: equal on every rank, or they
/// have drifted.
uint64_t parameter_hash(const TrainingState& state, const ParameterTable& table);

}  // namespace trireme
