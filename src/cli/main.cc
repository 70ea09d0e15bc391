#include <fmt/core.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/team_wait.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/version.h"

namespace {

using namespace trireme;

void print_usage(std::FILE* out) {
  fmt::print(out,
             "usage: trireme COMMAND [arguments]\n\nTrains and fine-tunes transformer language models on CPU and GPU "
             "clusters.\n\ncommands:\n");
  for (const Command& command : commands()) fmt::print(out, "  {:<12} {}\n", command.name, command.help);
  fmt::print(out, "\n`trireme COMMAND --help` explains a command; `trireme --version` says what this build can do.\n");
}

void require_printed() {
  const bool flushed = std::fflush(stdout) == 0;  // before strerror(errno): arguments are evaluated in any order
  require(flushed, ErrorKind::io, "cannot write all of the output: {}", std::strerror(errno));
  require(std::ferror(stdout) == 0, ErrorKind::io, "cannot write all of the output");  // the reason came earlier
}

int run(const std::vector<std::string>& arguments, char** argv) {
  if (arguments.empty()) {
    print_usage(stderr);
    return exit_code(ErrorKind::usage);
  }
  if (arguments[0] == "--help" || arguments[0] == "-h" || arguments[0] == "help") {
    print_usage(stdout);
    return 0;
  }
  if (arguments[0] == "--version") {
    fmt::print("{}", version_text());
    return 0;
  }
  for (const Command& command : commands()) {
    if (arguments[0] != command.name) continue;
    if (command.computes) wait_briefly(argv);
    const int code = command.run({arguments.begin() + 1, arguments.end()});
    if (command.prints_result) require_printed();
    return code;
  }
  std::vector<std::string> names;
  for (const Command& command : commands()) names.emplace_back(command.name);
  fail(ErrorKind::usage, "no command \"{}\"; nearest is \"{}\", and `trireme --help` lists all", arguments[0],
       nearest(arguments[0], names));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc}, argv);
  } catch (const Error& e) {
    log::error("{}", e.what());
    return exit_code(e.kind());
  } catch (const std::bad_alloc&) {
    log::error("out of memory");
    return 1;
  } catch (const std::exception& e) {
    log::error("{}", e.what());
    return 1;
  }
}
