#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text.h"
#include "cli/command_shape.h"
#include "cli/declared_flag.h"
#include "cli/flags.h"
#include "config/document.h"

namespace trireme {
namespace {

/// What stands before the help of a flag.
std::string label_of(const DeclaredFlag& flag) {
  std::string label;
  for (const std::string& name : flag.shape.names) {
    label += label.empty() ? name : "," + name;
    if (std::ranges::find(flag.off, name) != flag.off.end()) label += "{false}";
  }
  if (!flag.shown.empty()) return label + " " + flag.shown;
  if (flag.is_switch()) return label;
  label += " " + flag.type;
  if (!flag.shape.fallback.empty()) label += "=" + flag.shape.fallback;
  if (flag.shape.repeats) label += " ...";
  if (flag.shape.required) label += " REQUIRED";
  return label;
}

std::string label_of(const FlagShape& flag) {
  std::string label = fmt::format("{}", fmt::join(flag.names, ","));
  if (flag.kind == ValueKind::choice) label += fmt::format(" {{{}}}", fmt::join(flag.choices, ","));
  if (flag.kind == ValueKind::text && !flag.is_positional()) label += " TEXT";
  return label + (flag.repeats ? " ..." : "");
}

std::string help_line(const std::string& label, const std::string& help) {
  constexpr size_t kColumn = 30;
  std::string line = fmt::format("{:<{}}", "  " + label, kColumn);
  if (!help.empty() && label.size() + 2 >= kColumn) line += "\n" + std::string(kColumn, ' ');
  for (const char c : help) line += c == '\n' ? "\n" + std::string(kColumn, ' ') : std::string(1, c);
  return line + "\n";
}

}  // namespace

bool asks_help(const std::vector<std::string>& words) {
  return std::ranges::any_of(words, [](const std::string& word) { return word == "--help" || word == "-h"; });
}

CommandShape Flags::shape() const {
  CommandShape shape{.name = name_, .purpose = purpose_, .notes = footer_};
  shape.takes_command = completes_command_;
  if (configuration_) shape.flags = file_flags();
  for (const auto& flag : declared_) shape.flags.push_back(flag->shape);
  for (const std::span<const OptionFlag> flags : option_flags_) {
    for (const OptionFlag& flag : flags) shape.flags.push_back(shape_of(flag));
  }
  if (configuration_ || options_) shape.groups = option_groups(wanted_);
  for (const auto& action : actions_) shape.actions.push_back(action->shape());
  for (const auto& [name, run] : commands_) shape.actions.push_back(shape_of(name, run));
  return shape;
}

CommandShape shape_of(const std::string& name, const std::function<int(CommandLine)>& command) {
  CommandShape shape;
  CommandLine line;
  line.shape = &shape;
  command(line);
  shape.name = name;
  return shape;
}

std::string Flags::help() const {
  std::string usage = usage_;
  for (size_t at = 0; (at = usage.find('\n', at)) != std::string::npos; ++at) usage.insert(at + 1, "       ");
  constexpr size_t kWidth = 118;
  std::string text = usage.empty() ? (purpose_.empty() ? "" : purpose_ + "\n") + "Usage: " + name_ + " [OPTIONS]"
                                   : fmt::format("usage: {}\n\n{}\n", usage, wrapped(purpose_, kWidth, 0));
  std::string positional, flags = help_line("-h,--help", "Print this help message and exit");
  for (const std::span<const OptionFlag> own : option_flags_) {
    for (const OptionFlag& flag : own)
      flags += help_line(std::string(flag.flag) + (*flag.value == '\0' ? "" : " ") + flag.value, flag.help);
  }
  for (const auto& flag : declared_) {
    (flag->shape.is_positional() ? positional : flags) += help_line(label_of(*flag), flag->shape.help);
    if (!flag->shape.is_positional() || !usage.empty()) continue;
    const std::string name = flag->shape.names[0] + (flag->shape.repeats ? "..." : "");
    text += flag->shape.required ? " " + name : fmt::format(" [{}]", name);
  }
  if (configuration_) {
    for (const FlagShape& flag : file_flags())
      (flag.is_positional() ? positional : flags) += help_line(label_of(flag), flag.help);
  }
  if (!actions_.empty()) text += " SUBCOMMAND";
  if (usage.empty()) text += "\n";
  if (!positional.empty()) text += "\nPositionals:\n" + positional;
  text += "\nOptions:\n" + flags;
  if (!actions_.empty()) text += "\nSubcommands:\n";
  for (const auto& action : actions_) text += help_line(action->name_, action->purpose_);
  text += "\n";
  if (!footer_.empty()) text += footer_ + "\n";
  if (options_in_help_ == OptionsInHelp::names) text += option_names_help();
  if (options_in_help_ == OptionsInHelp::described) text += options_help();
  return text;
}

std::optional<int> Flags::answer(const std::vector<std::string>& words) const {
  if (line_.shape) {
    *line_.shape = shape();
    return 0;
  }
  for (const auto& [name, run] : commands_) {
    if (!words.empty() && words[0] == name) return run(std::vector<std::string>(words.begin() + 1, words.end()));
  }
  if (!(configuration_ || options_ || !commands_.empty()) || !asks_help(words)) return std::nullopt;
  fmt::print("{}", help());
  return 0;
}

std::vector<const FlagShape*> CommandShape::named_flags() const {
  std::vector<const FlagShape*> named;
  for (const FlagShape& flag : flags) {
    if (!flag.is_positional()) named.push_back(&flag);
  }
  for (const FlagGroup& group : groups) {
    for (const FlagShape& flag : group.flags) named.push_back(&flag);
  }
  return named;
}

}  // namespace trireme
