#pragma once
#include <string>
#include <vector>

#include "cluster/launch/job.h"

namespace trireme {

/// Throws Error::usage, naming the nearest, when the first word is neither a command of trireme nor a flag.
void require_command(const std::vector<std::string>& command);

/// Throws what reading the command's own files and flags throws.
JobFacts describe_job(const LaunchRequest& request);

}  // namespace trireme
