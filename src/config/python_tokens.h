#pragma once
// The tokens of a text in Python: names, numbers, strings, signs, and the start and end of lines and indented blocks.

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct PythonToken {
  enum class Kind { name, number, string, sign, newline, indent, dedent, end };
  Kind kind = Kind::end;
  std::string_view text;  ///< as written, a part of the input; a string with its prefix and quotes
  int line = 0;           ///< where it begins, from 1

  bool is(std::string_view word) const { return text == word && (kind == Kind::name || kind == Kind::sign); }
};

/// The tokens of `text`, the last one an `end`; they point into `text`. Comments, and line ends within brackets, are
/// omitted. `line`: the number of the first line. Throws Error::config with path and line: a string that is not closed,
/// indentation that matches no open block, blocks that nest deeper than 100 levels.
std::vector<PythonToken> python_tokens(std::string_view text, const std::string& path, int line = 1);

bool is_python_keyword(std::string_view word);

/// Throws the error "PATH:LINE: MESSAGE".
[[noreturn]] void fail_python(const std::string& path, int line, const std::string& message);

}  // namespace trireme
