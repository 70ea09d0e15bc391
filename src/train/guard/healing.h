#pragma once
// Ranks whose parameters differ from the others' (docs/design.md, decision 9): found by their hash, healed or named.

#include <string_view>

#include "comm/mesh.h"
#include "comm/scalars.h"
#include "optim/training_state.h"

namespace trireme {

/// Collective over the mesh. Compares the parameters of ranks that hold the same after `step` steps. Where a minority
/// differs from its replicas and `heal` holds, it takes weights and moments of a good one, is named in a warning and
/// compared again. Throws CommonError (mismatch) naming the ranks when they differ otherwise.
void check_parameters(Mesh& mesh, Scalars& scalars, std::string_view host, TrainingState& state,
                      const ParameterTable& table, int64_t step, bool heal);

}  // namespace trireme
