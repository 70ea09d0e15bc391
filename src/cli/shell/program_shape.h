#pragma once
// Every command with its flags and actions, as the commands declare them.

#include <string>
#include <vector>

#include "cli/command_shape.h"

namespace trireme {

/// In the order of `trireme --help`, without the commands that only programs call. The flags of train, plan and glue
/// include the options of config/config.h that they accept.
std::vector<CommandShape> program_shape();

}  // namespace trireme
