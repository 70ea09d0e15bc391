#pragma once
// Pre-training: windows of token files, all of one length, evaluated on fixed windows of the validation data.

#include <string_view>

#include "comm/process.h"
#include "config/load.h"

namespace trireme {

/// Runs or resumes what `loaded` describes as one rank of the job. Returns the exit code: 0 done, 75 stopped by
/// request. Throws Error. `version` identifies the program: all ranks must run the same one.
int train(LoadedConfig loaded, Process& process, std::string_view version);

}  // namespace trireme
