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
  bool has_operator = false;  ///< an unquoted pipe, list, redirection or substitution: only a shell can run it
};

/// Splits like a shell: '...' is literal, "..." and bare text take $NAME and ${NAME} from `variables` (empty when not
/// set), backslash escapes, "#" at a word's start ends the line. Throws Error::config for a quote or ${ that does not
/// close.
ShellWords split_words(std::string_view line, const Variables& variables);

}  // namespace trireme::health
