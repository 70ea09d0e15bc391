#pragma once
// The part of shell syntax that configuration lines of NHC use: words, quotes, variables, a trailing comment.

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::health {

using Variables = std::map<std::string, std::string>;

struct ShellWords {
  std::vector<std::string> words;
  bool has_operator = false;    ///< an unquoted pipe, list, redirection or substitution: only a shell can run it
  bool needs_shell = false;     ///< has_operator, or an unsupported expansion: ${A:-b}, {a,b}, ~, $'..', $1,
                                ///< a variable that is not in `variables`, or one with several words
  bool uses_variables = false;  ///< the words contain values of variables
};

/// Splits like a shell: '...' is literal, "..." and bare text expand $NAME and ${NAME} from `variables` (empty if not
/// set), a backslash escapes except before three octal digits (as \040 in /proc/mounts), "#" at a word's start ends the
/// line. Throws Error::config for an unclosed quote or ${.
ShellWords split_words(std::string_view line, const Variables& variables);

}  // namespace trireme::health
