#pragma once
// Configuration files of NHC: "TARGET || CHECK ARGUMENTS" lines, read unchanged.

#include <string>
#include <string_view>
#include <vector>

#include "cluster/health/check.h"
#include "cluster/health/match.h"
#include "cluster/health/shell_words.h"

namespace trireme::health {

struct ConfigLine {
  int number = 0;
  Match target;
  std::string text;  ///< what stands behind "||"
};

/// Comments and blank lines left out. Throws Error::config with "source:line:" for a line without "||", a target that
/// does not parse, or nothing behind "||".
std::vector<ConfigLine> parse_nhc_config(std::string_view text, const std::string& source);

enum class StepKind { variables, native, not_implemented, command };

/// A line made ready for one host.
struct Step {
  int number = 0;
  std::string target, text;
  bool applies = false;  ///< the target matches the host
  StepKind kind = StepKind::command;
  std::string name;                ///< of a native check; else empty
  std::vector<std::string> words;  ///< behind the name, variables filled in
  bool gpu = false;
  Check check;  ///< native only
};

struct Plan {
  std::vector<Step> steps;
  Variables variables;  ///< after all lines that apply, command-line values on top
};

/// What a file's lines may name: the variables of this process, PATH with the system's folders behind its own, and as
/// NHC sets them HOSTNAME and, without the domain, HOSTNAME_S.
Variables variables_of(const std::string& host);

/// Lines become steps in order: "export NAME=VALUE..." and "NAME=VALUE" set variables for the later ones (a name that
/// is in `fixed`, told on the command line, keeps that value), a check that Trireme knows becomes native, any other
/// first word is a command for the shell. A target may match the host's name with its domain or without. Every line is
/// read, whether it applies or not. Throws Error::config with "source:line:" for an unknown check_* name (naming the
/// nearest), wrong arguments, or shell operators around a native check.
Plan make_plan(const std::vector<ConfigLine>& lines, const std::string& source, std::string_view host,
               Variables environment, const Variables& fixed);

}  // namespace trireme::health
