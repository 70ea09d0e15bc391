#pragma once
#include <string>
#include <vector>

namespace trireme {

/// trireme bench comm.
int bench_comm_command(std::vector<std::string> arguments);

}  // namespace trireme
