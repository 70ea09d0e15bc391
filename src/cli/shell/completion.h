#pragma once
// Completions of shells as scripts.

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

}  // namespace trireme
