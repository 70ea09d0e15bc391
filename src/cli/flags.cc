#include "cli/flags.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/error.h"

namespace trireme {

std::optional<int> parse_flags(CLI::App& app, std::vector<std::string> arguments) {
  std::ranges::reverse(arguments);  // CLI11 takes a vector from its end
  try {
    app.parse(std::move(arguments));
    return std::nullopt;
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return 0;
  } catch (const CLI::ParseError& e) {
    fail(ErrorKind::usage, "{}: {}; `{} --help` explains the flags", app.get_name(), e.what(), app.get_name());
  }
}

}  // namespace trireme
