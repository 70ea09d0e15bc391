#pragma once
#include <string>

#include "cluster/launch/job.h"

namespace trireme {

/// Ranks of a file with these numbers: num_processes counts all, but below the number of machines those of each, as in
/// files that were written on each machine for itself.
int ranks_of_launch_file(int machines, int processes);

/// Applies a file of `trireme config wizard` or `accelerate config` to the request; given flags override it. Returns
/// what the log should say about the number of ranks; empty: nothing. Throws Error::config for unsupported settings.
[[nodiscard]] std::string apply_launch_file(const std::string& path, LaunchRequest& request);

}  // namespace trireme
