#pragma once
// Finds ranks whose parameters differ from the others' (docs/design.md, decision 9) by their hash; heals or names them.

#include <string_view>

#include "comm/mesh.h"
#include "comm/scalars.h"
#include "optim/training_state.h"

namespace trireme {

/// Collective over the mesh. Compares the parameters of replicas after `step` steps. If a minority differs from its
/// replicas and `heal` is set, it copies weights and moments from a good replica, is named in a warning and compared
/// again. Throws CommonError (mismatch) naming the ranks in any other case of a difference.
void check_parameters(Mesh& mesh, Scalars& scalars, std::string_view host, TrainingState& state,
                      const ParameterTable& table, Ops& ops, int64_t step, bool heal);

}  // namespace trireme
