#pragma once
// The arithmetic of a training step, from the parameters that it trains.

#include "model/parameter_table.h"

namespace trireme {

/// train_flops_per_token() of the table's Spec without what frozen parameters save: the products of their gradients,
/// and, below the first trained layer, all of backward. whole: of the complete model.
double train_flops_per_token(const ParameterTable& whole, int64_t sequence);

}  // namespace trireme
