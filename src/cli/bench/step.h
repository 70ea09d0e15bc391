#pragma once
#include <string>
#include <vector>

namespace trireme {

/// trireme bench step.
int bench_step_command(std::vector<std::string> arguments);

}  // namespace trireme
