#pragma once
// The tokens of a text in Python: names, numbers, strings, signs, and the start and end of lines and indented blocks.

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "config/setting.h"

namespace trireme {

struct PythonToken {
  enum class Kind { name, number, string, sign, newline, indent, dedent, end };
  Kind kind = Kind::end;
  std::string_view text;  ///< as written, a part of the input; a string with its prefix and quotes
  int line = 0;           ///< where it begins, from 1

  bool is(std::string_view word) const { return text == word && (kind == Kind::name || kind == Kind::sign); }
  bool ends_line() const { return kind == Kind::newline || kind == Kind::end; }
};

/// An error that names path and line.
struct PythonError : Error {
  explicit PythonError(const std::string& message, bool of_import = false)
      : Error(ErrorKind::config, message), imported(of_import) {}
  bool imported;  ///< the message also names the line that imports the file
};

/// The tokens of a text, and a place among them.
struct PythonCursor {
  /// The last token is an `end`. Comments, and line ends within brackets, are omitted. The code must outlive this;
  /// messages name it `file`, and `line` is the number of its first line. Throws PythonError: a string that is not
  /// closed, indentation that matches no open block, blocks that nest deeper than 100 levels.
  PythonCursor(std::string_view code, std::string file, int line = 1);

  const PythonToken& peek(size_t ahead = 0) const { return tokens[std::min(at + ahead, tokens.size() - 1)]; }
  bool take(std::string_view word) {
    if (!peek().is(word)) return false;
    ++at;
    return true;
  }
  void expect(std::string_view sign) {
    if (!take(sign)) fail_here("missing '" + std::string(sign) + "'");
  }
  /// Place of the next token that is one of these words and not in brackets that open from here on, or of the bracket
  /// or line end that comes before it.
  size_t find(std::initializer_list<std::string_view> words) const;
  /// From this token on, cut to 40 characters, for messages.
  std::string rest_of_line(const PythonToken& token) const;
  [[noreturn]] void fail_at(const PythonToken& token, const std::string& message) const;
  [[noreturn]] void fail_here(const std::string& message) const { fail_at(peek(), message); }

  std::string_view text;
  std::string path;
  std::vector<PythonToken> tokens;
  size_t at = 0;
};

/// The value of a number, or of a string without its formatted parts. Throw Error::config without path and line.
Value python_number(std::string_view token);
std::string python_string(std::string_view token);

bool is_python_keyword(std::string_view word);

}  // namespace trireme
