#pragma once
// The arrays that training changes, each flat over the parameter table: weights (with the int16 remainder that makes
// bf16 weights an exact f32 master), gradients and the two moments. One arena, sized by the table.

#include <functional>

#include "model/parameter_table.h"
#include "tensor/arena.h"

namespace trireme {

class TrainingState {
 public:
  /// dtype: weights' type: f32, bf16, or f64 (reference). `moments` false leaves gradients and moments out (sampling,
  /// evaluation).
  TrainingState(const ParameterTable& table, DType dtype, bool moments);

  View weights() const { return weights_; }      ///< [flat_count] dtype
  View remainder() const { return remainder_; }  ///< [flat_count] i16 with bf16 weights, else empty
  View gradients() const { return gradients_; }  ///< [gradient_count] f32 (f64)
  View moment1() const { return moment1_; }      ///< [flat_count] f32 (f64)
  View moment2() const { return moment2_; }
  size_t bytes() const;
  /// What a state takes, without allocating it.
  static size_t bytes_for(const ParameterTable& table, DType dtype, bool moments);

  /// f32 master values of one parameter, padding rows left out: [stored_shape].
  void read_master(const Parameter& parameter, std::span<float> out) const;
  /// Sets weights (and remainder) of one parameter from f32 master values [stored_shape]; padding rows become zero.
  void write_master(const Parameter& parameter, std::span<const float> values);
  /// Sets elements [first, first + values.size()) of the flat weights (and remainder) from f32 master values.
  void write_weights(int64_t first, std::span<const float> values);
  /// Zeroes the weights of a parameter's padding rows.
  void clear_padding(const Parameter& parameter);

 private:
  Arena arena_;
  View weights_, remainder_, gradients_, moment1_, moment2_;
};

/// Fills every parameter by its Init: values are pure functions of (seed, parameter name, element of the whole tensor),
/// so they depend neither on layout nor on padding.
void initialize(TrainingState& state, const ParameterTable& table, uint64_t seed);

/// XXH3 over all weights and remainders in table order: equal on every rank, or they have drifted.
uint64_t parameter_hash(const TrainingState& state, const ParameterTable& table);

}  // namespace trireme
