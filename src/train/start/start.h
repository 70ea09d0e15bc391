#pragma once
// The start of every job, step by step: the ranks prove that they belong together, watch each other and bind to their
// cores; rank 0 claims the run folder. Then values, each made of the one before: Resolved (where the run begins) ->
// RunPlan (model and data are open, by way of Opened; what this rank holds is planned) -> Loaded (weights, session and
// saver) -> Task (what the loop needs) -> RunEnd.

#include <string_view>

#include "comm/process.h"
#include "train/start/recipe.h"

namespace trireme {

/// Collective. version: identifies the program; all ranks must run the same one. Returns the exit code: 0 done, 75
/// stopped by request. Throws Error.
int start(Recipe& recipe, Process& process, std::string_view version);

}  // namespace trireme
