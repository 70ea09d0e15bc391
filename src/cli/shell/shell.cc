// trireme completion, trireme manual: what shells and man know of the program.

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/shell/shell.h"
#include "cli/version.h"

namespace trireme {
namespace {

/// Today, or the day of SOURCE_DATE_EPOCH, by which packages are reproducible: YYYY-MM-DD.
std::string date_of_pages() {
  std::time_t time = std::time(nullptr);
  if (const char* given = std::getenv("SOURCE_DATE_EPOCH")) {
    const std::string_view text = given;
    int64_t seconds = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), seconds);
    require(result.ec == std::errc() && result.ptr == text.data() + text.size(), ErrorKind::usage,
            "SOURCE_DATE_EPOCH is \"{}\", expected seconds since 1970", text);
    time = static_cast<std::time_t>(seconds);
  }
  std::tm utc{};
  gmtime_r(&time, &utc);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &utc);
  return text;
}

/// "trireme 0.1.0", without the commit.
std::string version_of_pages() {
  const std::string text = program_text();
  return text.substr(0, text.find(" ("));
}

void write_pages(const std::string& folder) {
  const std::vector<CommandShape> shapes = program_shape();
  const std::string date = date_of_pages(), version = version_of_pages();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  require(!error, ErrorKind::io, "cannot create the folder {}: {}", folder, error.message());
  write_text(folder + "/trireme.1", manual_page(shapes, date, version));
  for (const CommandShape& shape : shapes)
    write_text(fmt::format("{}/trireme-{}.1", folder, shape.name), manual_page(shape, date, version));
}

}  // namespace

int run_completion(CommandLine line) {
  Flags app(std::move(line), "trireme completion", "Prints the completion of commands, flags and values for a shell.");
  app.set_footer(
      "Packages install it. By hand: bash: eval \"$(trireme completion bash)\" in ~/.bashrc; zsh: write it to a file "
      "_trireme in a folder of fpath; fish: write it to ~/.config/fish/completions/trireme.fish.");
  std::string shell;
  app.add("SHELL", shell, "bash, zsh or fish").required().one_of({"bash", "zsh", "fish"});
  if (const auto code = app.parse()) return *code;
  const std::vector<CommandShape> shapes = program_shape();
  fmt::print("{}", shell == "bash"  ? bash_completion(shapes)
                   : shell == "zsh" ? zsh_completion(shapes)
                                    : fish_completion(shapes));
  return 0;
}

int run_manual(CommandLine line) {
  Flags app(std::move(line), "trireme manual",
            "Prints the manual page of a command, for man: `trireme manual train | man -l -`.");
  app.set_footer("Packages install all pages: `man trireme`, `man trireme-train`.");
  std::string command, folder;
  app.add("COMMAND", command, "a command of trireme (default: the page about the program)");
  app.add("--output", folder, "folder for all pages instead of standard output");
  if (const auto code = app.parse()) return *code;
  if (!folder.empty()) {
    require(command.empty(), ErrorKind::usage, "--output writes all pages; remove {}", command);
    write_pages(folder);
    return 0;
  }
  const std::vector<CommandShape> shapes = program_shape();
  if (command.empty()) {
    fmt::print("{}", manual_page(shapes, date_of_pages(), version_of_pages()));
    return 0;
  }
  const auto shape = std::ranges::find(shapes, command, &CommandShape::name);
  require(shape != shapes.end(), ErrorKind::usage, "unknown command \"{}\"{}; `trireme --help` lists all commands",
          command, meant_command(command));
  fmt::print("{}", manual_page(*shape, date_of_pages(), version_of_pages()));
  return 0;
}

std::vector<CommandShape> program_shape() {
  std::vector<CommandShape> shapes;
  for (const Command& command : commands()) {
    if (!command.internal) shapes.push_back(shape_of(command.name, command.run));
  }
  return shapes;
}

}  // namespace trireme
