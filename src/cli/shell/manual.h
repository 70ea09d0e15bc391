#pragma once
// Manual pages in the language of man(7).

#include <string>
#include <vector>

#include "cli/command_shape.h"

namespace trireme {

/// trireme(1). date: YYYY-MM-DD; version: "trireme 0.1.0".
std::string manual_page(const std::vector<CommandShape>& commands, const std::string& date, const std::string& version);
/// trireme-COMMAND(1), with all actions of the command.
std::string manual_page(const CommandShape& command, const std::string& date, const std::string& version);

}  // namespace trireme
