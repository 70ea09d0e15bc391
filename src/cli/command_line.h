#pragma once
// Flags of the commands that have their own few (not the training configuration): CLI11 with our errors.

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace trireme {

/// Parses the arguments. Returns false after printing help; throws Error::usage for what does not fit. In flags `-` and
/// `_` are the same.
bool parse_command_line(CLI::App& app, std::vector<std::string> arguments);

}  // namespace trireme
