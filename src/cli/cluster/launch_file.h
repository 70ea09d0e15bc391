#pragma once
#include <string>

#include "cluster/launch/job.h"

namespace trireme {

/// What a file of `trireme config wizard` or `accelerate config` says about starting ranks; flags that were given win.
/// Throws Error::config for what it asks for and cannot be had.
void apply_launch_file(const std::string& path, LaunchRequest& request);

}  // namespace trireme
