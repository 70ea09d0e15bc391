#pragma once
#include "cli/command_shape.h"

namespace trireme {

/// trireme config wizard.
int config_wizard(CommandLine line);

}  // namespace trireme
