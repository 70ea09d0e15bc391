#pragma once
// Configuration files of NHC: "TARGET || CHECK ARGUMENTS" lines, read unchanged.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/health/check.h"
#include "cluster/health/match.h"
#include "cluster/health/nhc_settings.h"

namespace trireme::health {

struct ConfigLine {
  int number = 0;
  std::string target_text;
  std::optional<Match> target;  ///< empty: `problem` says why, and the line applies to every host
  std::string text;             ///< the text after "||"
  std::string problem;          ///< why the line cannot be used; empty: it can
};

/// The text of a file. Throws Error::config if it does not exist or why_not_trusted() refuses it.
std::string read_nhc_config(const std::string& path);

/// Without comments and blank lines. As in NHC's shell a backslash joins lines and escapes the next character ("\\" is
/// one backslash); but file system checks keep "\040" (three octal digits), which is how /proc/mounts writes a blank. A
/// line without "||", without a target or check, or with a target that cannot be parsed has a `problem`; the other
/// lines remain valid. Throws Error::config for a file that is not text.
std::vector<ConfigLine> parse_nhc_config(std::string_view text);

/// command: for bash; bad: the line itself cannot be used.
enum class StepKind { variables, native, not_implemented, command, bad };

/// A line prepared for one host.
struct Step {
  int number = 0;
  std::string target, text;
  bool applies = false;  ///< the target matches the host
  StepKind kind = StepKind::command;
  std::string name;                ///< of a check; otherwise empty
  std::vector<std::string> words;  ///< words after the name, with variables expanded
  bool gpu = false;
  Check check;          ///< native only
  std::string problem;  ///< bad only

  /// "line 3: PROBLEM"; without the line number if it is 0.
  std::string placed_problem() const;
};

struct Plan {
  std::vector<Step> steps;
  Variables variables;  ///< after all lines that apply; command-line values win
  Variables initial;    ///< before the first line
  Variables fixed;      ///< from the command line: lines do not change them
};

/// Lines become steps in order: "export NAME=VALUE..." and "NAME=VALUE" set variables for the later ones (a name in
/// `fixed` keeps its value from the command line), a check that Trireme knows becomes native if its words need no shell
/// and no site function (see nhc_settings.h) replaces it; any other line is for bash. A target may match the host's
/// name with or without its domain. Every line is parsed, whether it applies or not. A line with errors (arguments,
/// quotes) becomes bad.
Plan make_plan(const std::vector<ConfigLine>& lines, std::string_view host, const Settings& settings);

}  // namespace trireme::health
