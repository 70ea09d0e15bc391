#include <fmt/core.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/team_wait.h"
#include "base/write_signals.h"
#include "cli/command.h"
#include "cli/version.h"
#include "comm/rank_record.h"

namespace {

using namespace trireme;

void print_usage(std::FILE* out) {
  fmt::print(
      out,
      "usage: trireme COMMAND [arguments]\n\nTrains and fine-tunes transformer language models on CPUs or GPUs, on "
      "one machine or a cluster.\n\ncommands:\n");
  for (const Command& command : commands()) fmt::print(out, "  {:<12} {}\n", command.name, command.help);
  fmt::print(out,
             "\n`trireme COMMAND --help` explains a command; `trireme --version` shows what this build supports.\n");
}

void require_printed() {
  const bool flushed = std::fflush(stdout) == 0;  // before strerror(errno): arguments are evaluated in any order
  if (!flushed && errno == EPIPE) end_by_broken_pipe();
  require(flushed, ErrorKind::io, "cannot write all of the output: {}", reason_of_write(errno));
  require(std::ferror(stdout) == 0, ErrorKind::io, "cannot write all of the output");  // the reason is no longer known
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
    const int code = command.run(std::vector<std::string>(arguments.begin() + 1, arguments.end()));
    if (command.prints_result) require_printed();
    return code;
  }
  fail(ErrorKind::usage, "unknown command \"{}\"{}; `trireme --help` lists all commands", arguments[0],
       meant_command(arguments[0]));
}

}  // namespace

int main(int argc, char** argv) {
  ignore_write_signals();
  tell_launch_errors();
  try {
    return run({argv + 1, argv + argc}, argv);
  } catch (const Error& e) {
    log::error("{}", e.what());
    return exit_code(e.kind());
  } catch (const std::bad_alloc&) {
    log::error("out of memory");
    return 1;
  } catch (const std::filesystem::filesystem_error& e) {
    log::error("{}: {}", printable(e.path1().string()), e.code().message());
    return 1;
  } catch (const std::system_error& e) {
    if (e.code() == std::errc::broken_pipe) end_by_broken_pipe();  // of what fmt::print() writes to
    if (e.code().value() == EFBIG)
      log::error("cannot write all of the output: {}", reason_of_write(EFBIG));
    else
      log::error("{}", printable(e.what()));
    return 1;
  } catch (const std::exception& e) {
    log::error("{}", printable(e.what()));
    return 1;
  }
}
