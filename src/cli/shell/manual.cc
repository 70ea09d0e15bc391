#include "cli/shell/shell.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

namespace trireme {
namespace {

/// Text of a paragraph: nothing in it is a request, and every '-' is one that can be searched for and copied.
std::string roff(const std::string& text) {
  std::string out;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) out += "\\&";
    if (line_begins && c == ' ') continue;
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
    line_begins = c == '\n';
  }
  return out;
}

std::string upper_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string head(const std::string& name, const std::string& date, const std::string& version) {
  return fmt::format(".TH {} 1 \"{}\" \"{}\" \"User Commands\"\n", roff(upper_case(name)), date, version);
}

std::string placeholder(const FlagShape& flag) {
  switch (flag.kind) {
    case ValueKind::none:
      return "";
    case ValueKind::number:
      return "N";
    case ValueKind::choice:
      return fmt::format("{}", fmt::join(flag.choices, "|"));
    case ValueKind::text:
      return "TEXT";
  }
  return "";
}

std::string explained(const FlagShape& flag) {
  std::string text = flag.help;
  if (!flag.limits.empty()) text += (text.empty() ? "" : "; ") + flag.limits;
  if (flag.required) text += text.empty() ? "required" : "; required";
  if (!flag.fallback.empty()) text += fmt::format(" [{}]", flag.fallback);
  return text.empty() ? "see above" : text;
}

std::string flag_entry(const FlagShape& flag) {
  std::string names;
  for (const std::string& name : flag.names) {
    names += names.empty() ? "" : ", ";
    names += "\\fB" + roff(name) + "\\fR";
  }
  const std::string value = placeholder(flag);
  if (!flag.is_positional() && !value.empty())
    names += flag.value_is_optional ? " [\\fI" + roff(value) + "\\fR]" : " \\fI" + roff(value) + "\\fR";
  return fmt::format(".TP\n{}\n{}\n", names, roff(explained(flag)));
}

std::string flag_entries(const std::vector<FlagShape>& flags) {
  std::string out;
  for (const FlagShape& flag : flags) out += flag_entry(flag);
  return out;
}

std::string synopsis(const std::string& name, const CommandShape& command) {
  std::string line = ".B " + roff(name) + "\n";
  if (!command.actions.empty()) line += ".I ACTION\n";
  for (const FlagShape& flag : command.flags) {
    if (flag.is_positional())
      line += fmt::format("{}{}{}\n", flag.required ? ".I " : ".RI [ ", roff(flag.names[0]),
                          std::string(flag.repeats ? "..." : "") + (flag.required ? "" : " ]"));
  }
  line += "[\\fIflags\\fR]\n";
  if (command.takes_command) line += "\\fB\\-\\-\\fR \\fIcommand\\fR ...\n";
  return line;
}

std::string exit_status() {
  return ".SH EXIT STATUS\n0 after success, 2 after a wrong flag, 1 or a code of docs/training.md after other "
         "errors.\n";
}

std::string paragraphs(const std::string& text) { return text.empty() ? "" : ".PP\n" + roff(text) + "\n"; }

}  // namespace

std::string manual_page(const std::vector<CommandShape>& commands, const std::string& date,
                        const std::string& version) {
  std::string page =
      head("trireme", date, version) +
      ".SH NAME\ntrireme \\- train and fine\\-tune transformer language models on clusters\n"
      ".SH SYNOPSIS\n.B trireme\n.I COMMAND\n[\\fIflags\\fR]\n.br\n.B trireme \\-\\-version\n"
      ".SH DESCRIPTION\nOne program without Python: it trains, fine\\-tunes, samples and exports language "
      "models on CPUs or GPUs, on one machine or, through MPI, on a cluster.\n.SH COMMANDS\n";
  std::vector<std::string> pages;
  for (const CommandShape& command : commands) {
    page += fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(command.name), roff(command.purpose));
    pages.push_back(fmt::format(".BR {} (1)", roff("trireme-" + command.name)));
  }
  return page + exit_status() + fmt::format(".SH SEE ALSO\n{}\n", fmt::join(pages, ",\n"));
}

std::string manual_page(const CommandShape& command, const std::string& date, const std::string& version) {
  const std::string name = "trireme-" + command.name;
  std::string page = head(name, date, version) +
                     fmt::format(".SH NAME\n{} \\- {}\n.SH SYNOPSIS\n", roff(name),
                                 roff(command.purpose.substr(0, command.purpose.find(". ")))) +
                     synopsis("trireme " + command.name, command) + ".SH DESCRIPTION\n" + roff(command.purpose) + "\n" +
                     paragraphs(command.notes);
  if (!command.flags.empty()) page += ".SH FLAGS\n" + flag_entries(command.flags);
  for (const FlagGroup& group : command.groups)
    page += fmt::format(".SH {}\n", roff(upper_case(group.heading))) + flag_entries(group.flags);
  if (!command.actions.empty()) page += ".SH ACTIONS\n";
  for (const CommandShape& action : command.actions) {
    page += fmt::format(".SS {}\n", roff(action.name)) +
            synopsis(fmt::format("trireme {} {}", command.name, action.name), action) + ".PP\n" + roff(action.purpose) +
            "\n" + paragraphs(action.notes) + flag_entries(action.flags);
    for (const FlagGroup& group : action.groups) page += flag_entries(group.flags);
  }
  return page + exit_status() + ".SH SEE ALSO\n.BR trireme (1)\n";
}

}  // namespace trireme
