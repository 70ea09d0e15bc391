#include <fmt/core.h>

#include <cstdio>

#include "base/error.h"
#include "cli/command.h"
#include "cli/config_wizard.h"
#include "config/document.h"

namespace trireme {
namespace {

constexpr const char* kUsage =
    "usage: trireme config show FILES... [--key value ...] [--dialect NAME]\n"
    "       trireme config options\n"
    "       trireme config wizard [--answer VALUE ...] [--output FILE]\n\n"
    "show     prints the configuration that these files and flags give, as native YAML, and where each value came "
    "from\n"
    "options  prints docs/options.md: every option, and the keys of every dialect\n"
    "wizard   asks what `accelerate config` asks and writes a file for `trireme launch --config-file`\n";

void show(const std::vector<std::string>& words) {
  const ConfigWords split = split_words(words);
  fmt::print("{}", to_yaml(load_config(split.files, split.flags, split.dialect)));
}

}  // namespace

int run_config(std::vector<std::string> arguments) {
  const std::string action = arguments.empty() ? "" : arguments[0];
  if (action == "--help" || action == "-h") {
    fmt::print("{}", kUsage);
    return 0;
  }
  if (action == "show") {
    show({arguments.begin() + 1, arguments.end()});
    return 0;
  }
  if (action == "options") {
    require(arguments.size() == 1, ErrorKind::usage, "trireme config options takes no arguments, found \"{}\"",
            arguments[1]);
    fmt::print("{}", options_markdown());
    return 0;
  }
  if (action == "wizard") return config_wizard({arguments.begin() + 1, arguments.end()});
  fail(ErrorKind::usage, "trireme config {}: expected show, options or wizard; `trireme config --help` explains them",
       action.empty() ? "needs an action" : action);
}

}  // namespace trireme
