#pragma once
// The first magnitudes of a new adapter (DoRA): the lengths of the base model's rows, so that it begins as the base.

#include <functional>
#include <span>

#include "optim/training_state.h"

namespace trireme {

/// Of a row of weights, in f64.
double length_of(std::span<const float> row);

/// Fills the weights of some blocks of the model without adapters, in f32; called for one block after the other.
using LoadBlock = std::function<void(const ParameterTable& block, TrainingState& weights)>;

/// Sets the magnitudes that the table holds. Not collective: every rank reads whole rows, also of linears of which it
/// holds a part. scheme: of the table. Throws as load.
void initialize_magnitudes(const ParameterTable& table, InitScheme scheme, TrainingState& state, const LoadBlock& load);

}  // namespace trireme
