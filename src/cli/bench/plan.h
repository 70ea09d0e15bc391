#pragma once
#include <string>
#include <vector>

namespace trireme {

/// `trireme bench plan`: holds the planner's step times against measured runs.
int bench_plan_command(std::vector<std::string> arguments);

}  // namespace trireme
