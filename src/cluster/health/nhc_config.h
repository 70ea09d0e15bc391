#pragma once
// Configuration files of NHC: "TARGET || CHECK ARGUMENTS" lines, read unchanged.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/health/check.h"
#include "cluster/health/match.h"
#include "cluster/health/nhc_settings.h"
#include "cluster/health/shell_words.h"

namespace trireme::health {

struct ConfigLine {
  int number = 0;
  std::string target_text;
  std::optional<Match> target;  ///< empty: `problem` says why, and the line applies to every host
  std::string text;             ///< what follows "||"
  std::string problem;          ///< why the line cannot be used; empty: it can
};

/// Comments and blank lines left out. As NHC's shell reads it: a backslash joins lines and takes the meaning from the
/// next character ("\\" is one backslash); but in checks of file systems "\040", three octal digits, is kept, which is
/// how /proc/mounts writes a blank. A line without "||", without a target or check, or whose target does not parse has
/// a `problem`; the others stay in force.
std::vector<ConfigLine> parse_nhc_config(std::string_view text);

/// command: for bash; bad: cannot be used, nor can any other line be blamed for it.
enum class StepKind { variables, native, not_implemented, command, bad };

/// A line made ready for one host.
struct Step {
  int number = 0;
  std::string target, text;
  bool applies = false;  ///< the target matches the host
  StepKind kind = StepKind::command;
  std::string name;                ///< of a check; else empty
  std::vector<std::string> words;  ///< behind the name, variables filled in
  bool gpu = false;
  Check check;          ///< native only
  std::string problem;  ///< bad only

  /// "line 3: PROBLEM"; without the line where it is of none (number 0).
  std::string placed_problem() const;
};

struct Plan {
  std::vector<Step> steps;
  Variables variables;  ///< after all lines that apply, command-line values on top
  Variables initial;    ///< before the first line
  Variables fixed;      ///< told on the command line: lines do not change them
};

/// Lines become steps in order: "export NAME=VALUE..." and "NAME=VALUE" set variables for the later ones (a name that
/// is in `fixed`, told on the command line, keeps that value), a check that Trireme knows becomes native when its words
/// need no shell and the site's own functions (see nhc_settings.h) do not replace it; any other line is for bash. A
/// target may match the host's name with its domain or without. Every line is read, whether it applies or not. A line
/// that is wrong in itself (arguments, quotes) becomes bad.
Plan make_plan(const std::vector<ConfigLine>& lines, std::string_view host, const Settings& settings);

}  // namespace trireme::health
