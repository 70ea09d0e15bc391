#pragma once
#include <string>

#include "cluster/launch/job.h"

namespace trireme {

/// Applies a file of `trireme config wizard` or `accelerate config` to the request; given flags override it. Throws
/// Error::config for unsupported settings.
void apply_launch_file(const std::string& path, LaunchRequest& request);

}  // namespace trireme
