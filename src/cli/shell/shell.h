#pragma once
// What shells and man show of the program: completions as scripts, and manual pages in the language of man(7).

#include <string>
#include <vector>

#include "cli/command_shape.h"

namespace trireme {

/// For bash 4 or newer. The script defines the function _trireme and three tables.
std::string bash_completion(const std::vector<CommandShape>& commands);
/// For a file _trireme in a folder of zsh's fpath.
std::string zsh_completion(const std::vector<CommandShape>& commands);
/// For a file trireme.fish in a folder of fish's completions.
std::string fish_completion(const std::vector<CommandShape>& commands);

/// trireme(1). date: YYYY-MM-DD; version: "trireme 0.1.0".
std::string manual_page(const std::vector<CommandShape>& commands, const std::string& date, const std::string& version);
/// trireme-COMMAND(1), with all actions of the command.
std::string manual_page(const CommandShape& command, const std::string& date, const std::string& version);

/// In the order of `trireme --help`, without the commands that only programs call. The flags of train, plan and glue
/// include the options of config/config.h that they accept.
std::vector<CommandShape> program_shape();

}  // namespace trireme
