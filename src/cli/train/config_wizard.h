#pragma once
#include <string>
#include <vector>

namespace trireme {

/// trireme config wizard.
int config_wizard(std::vector<std::string> arguments);

}  // namespace trireme
