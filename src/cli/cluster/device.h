#pragma once
#include "cli/command_shape.h"

namespace trireme {

/// `trireme device check`, with the arguments after these words. Returns the exit code.
int run_device_check(CommandLine line);

}  // namespace trireme
