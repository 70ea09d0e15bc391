#pragma once
#include <string>
#include <vector>

namespace trireme {

/// `trireme device check`, with the arguments after these words. Returns the exit code.
int run_device_check(std::vector<std::string> arguments);

}  // namespace trireme
