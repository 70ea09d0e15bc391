#pragma once
#include <string>
#include <vector>

#include "cluster/launch/job.h"

namespace trireme {

/// Throws Error::usage with the nearest name if the first word is neither a command of trireme nor a flag.
void require_command(const std::vector<std::string>& command);

/// Throws the errors of reading the command's files and flags.
JobFacts describe_job(const LaunchRequest& request);

}  // namespace trireme
