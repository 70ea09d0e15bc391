#pragma once
// Detects models with weights that are not finite.

#include <string>

#include "optim/training_state.h"

namespace trireme {

/// Weights, and moments where the state has them, that are NaN or infinite: "block.0.mlp.in.weight (12 of 4096 values)
/// and 3 more of 28 tensors". Empty: every value is finite. Reads all of the state.
std::string describe_not_finite(const TrainingState& state, const ParameterTable& table);

/// Throws Error::numeric when a value of the state that was loaded from `path` is not finite, ending in `advice`.
void require_finite(const TrainingState& state, const ParameterTable& table, const std::string& path,
                    const std::string& advice);

}  // namespace trireme
