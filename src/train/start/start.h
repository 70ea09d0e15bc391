#pragma once
// The one start of a job, step by step: the ranks prove that they are one, watch each other and take their cores, rank
// 0 claims the run folder, the plan is built, weights are loaded, the recipe works, the run ends.

#include <string_view>

#include "comm/process.h"
#include "train/start/recipe.h"

namespace trireme {

/// Collective. version: identifies the program, which all ranks must run the same of. Returns the exit code: 0 done, 75
/// stopped by request. Throws Error.
int start(Recipe& recipe, Process& process, std::string_view version);

}  // namespace trireme
