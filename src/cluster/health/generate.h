#pragma once
#include <string>

#include "cluster/health/machine.h"

namespace trireme::health {

/// A configuration file that this node passes now: its mounts, space, processors, memory, swap, interfaces, InfiniBand
/// ports and GPUs. Every line is for this host's name with its digits as "*", so that one file suits like nodes.
std::string generate_config(const Machine& machine);

}  // namespace trireme::health
