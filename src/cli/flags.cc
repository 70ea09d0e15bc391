#include "cli/flags.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/error.h"

namespace trireme {

std::optional<int> parse_flags(CLI::App& app, std::vector<std::string> arguments) {
  for (std::string& argument : arguments) {  // '-' equals '_' in flags
    if (!argument.starts_with("--")) continue;
    std::replace(argument.begin() + 2, std::find(argument.begin(), argument.end(), '='), '_', '-');
  }
  std::ranges::reverse(arguments);  // CLI11 takes a vector from its end
  try {
    app.parse(std::move(arguments));
    return std::nullopt;
  } catch (const CLI::CallForHelp&) {
    const auto used = app.get_subcommands();
    fmt::print("{}", used.empty() ? app.help() : used[0]->help("", CLI::AppFormatMode::Sub));
    return 0;
  } catch (const CLI::ParseError& e) {
    fail(ErrorKind::usage, "{}: {}; `{} --help` explains the flags", app.get_name(), e.what(), app.get_name());
  }
}

}  // namespace trireme
