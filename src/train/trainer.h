#pragma once
// A training run from start to end: builds everything, loops over steps, evaluates, saves, stops.

#include "comm/process.h"
#include "config/load.h"

namespace trireme {

/// Runs or resumes what `loaded` describes as one rank of the job. Returns the exit code: 0 done, 75 stopped by
/// request. Throws Error. `version` identifies the program: all ranks must run the same one.
int train(LoadedConfig loaded, Process& process, std::string_view version);

}  // namespace trireme
