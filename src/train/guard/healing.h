#pragma once
// Ranks whose parameters differ from the others' (docs/design.md, decision 9): found by their hash, healed or named.

#include <string_view>

#include "comm/scalars.h"
#include "optim/training_state.h"

namespace trireme {

/// Collective over `replicas`, ranks that hold the same weights, of which `scalars` speaks. Compares their parameters
/// after `step` steps. Where a minority differs from all others and `heal` holds, it takes weights and moments of a
/// good rank, is named in a warning and compared again. Throws CommonError (mismatch) naming the ranks when they differ
/// otherwise.
void check_parameters(Communicator& replicas, Scalars& scalars, std::string_view host, TrainingState& state,
                      const ParameterTable& table, int64_t step, bool heal);

}  // namespace trireme
