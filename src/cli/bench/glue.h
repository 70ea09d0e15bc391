#pragma once
#include <string>
#include <vector>

namespace trireme {

int bench_glue_command(std::vector<std::string> arguments);

}  // namespace trireme
