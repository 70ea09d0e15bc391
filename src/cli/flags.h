#pragma once
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace trireme {

/// Parses a subcommand's arguments; in flags '-' equals '_'. Help goes to standard output and gives exit code 0; a
/// wrong flag throws Error::usage with the parser's reason.
std::optional<int> parse_flags(CLI::App& app, std::vector<std::string> arguments);

}  // namespace trireme
