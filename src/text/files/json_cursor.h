#pragma once
// Reads JSON once, from left to right, without a tree, for members of tokenizer files with 100,000 entries.

#include <stdexcept>
#include <string>
#include <string_view>

namespace trireme {

/// The text is not JSON, or not the requested type.
struct JsonSyntax : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class JsonCursor {
 public:
  /// `text` is valid UTF-8 and outlives the cursor.
  explicit JsonCursor(std::string_view text) : text_(text) {}

  /// First byte of the next item after white space; '\0' at the end.
  char peek();
  /// Consumes one character of the syntax. Throws JsonSyntax for another one.
  void take(char c);
  /// Iterates over the members of an object or the items of an array, with the cursor after the opening bracket: true
  /// if there is a next one; false after the `closing` bracket.
  bool next(char closing, bool& first);

  /// A string; valid until the next call.
  std::string_view string();
  /// The key of a member, up to its value; valid until the next call.
  std::string_view key();
  /// True if the next value is a number.
  bool at_number();
  /// The text of a number.
  std::string_view number();
  /// Skips a value and returns its text. Counts brackets, does not check the syntax otherwise.
  std::string_view skip();

  size_t position() const { return at_; }

 private:
  std::string_view unescape(size_t begin);

  std::string_view text_;
  size_t at_ = 0;
  std::string buffer_;
};

}  // namespace trireme
