#include "cli/command_line.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"

namespace trireme {

bool parse_command_line(CLI::App& app, std::vector<std::string> arguments) {
  for (std::string& argument : arguments) {
    if (!argument.starts_with("--")) continue;
    const auto end = std::find(argument.begin(), argument.end(), '=');
    std::replace(argument.begin() + 2, end, '_', '-');
  }
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    const auto used = app.get_subcommands();
    fmt::print("{}", used.empty() ? app.help() : used[0]->help("", CLI::AppFormatMode::Sub));
    return false;
  } catch (const CLI::ParseError& e) {
    fail(ErrorKind::usage, "{}; `{} --help` explains the command", e.what(), app.get_name());
  }
  return true;
}

}  // namespace trireme
