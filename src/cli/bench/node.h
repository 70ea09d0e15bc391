#pragma once
#include <string>
#include <vector>

namespace trireme {

/// trireme bench node.
int bench_node_command(std::vector<std::string> arguments);

}  // namespace trireme
