#pragma once
// Reads JSON once, from left to right, without a tree: for the members of tokenizer files that have 100,000 entries.

#include <stdexcept>
#include <string>
#include <string_view>

namespace trireme {

/// The text is not what the reader asked for, or no JSON.
struct JsonSyntax : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class JsonCursor {
 public:
  /// `text` is valid UTF-8 and outlives the cursor.
  explicit JsonCursor(std::string_view text) : text_(text) {}

  /// First byte of what comes next, white space left out; '\0' at the end.
  char peek();
  /// Takes one character of the syntax. Throws JsonSyntax for another one.
  void take(char c);
  /// For the members of an object or the items of an array, behind whose opening bracket the cursor stands: true if
  /// there is a next one; false, behind the `closing` bracket.
  bool next(char closing, bool& first);

  /// A string; valid until the next call.
  std::string_view string();
  /// The key of a member, up to its value; valid until the next call.
  std::string_view key();
  /// True if the next value is a number.
  bool at_number();
  /// The text of a number.
  std::string_view number();
  /// Leaves a value out and returns its text. Its brackets are counted, its syntax is otherwise not checked.
  std::string_view skip();

  size_t position() const { return at_; }

 private:
  std::string_view unescape(size_t begin);

  std::string_view text_;
  size_t at_ = 0;
  std::string buffer_;
};

}  // namespace trireme
