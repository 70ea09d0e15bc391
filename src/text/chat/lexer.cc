#include "text/chat/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "text/chat/python_text.h"
#include "text/unicode.h"

namespace trireme::chat {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

/// Line breaks as "\n", the last one dropped.
std::string with_plain_breaks(std::string_view source, bool drop_last) {
  std::string text;
  for (size_t i = 0; i < source.size(); ++i) {
    const bool pair = source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n';
    if (!pair) text += source[i] == '\r' ? '\n' : source[i];
  }
  if (drop_last && text.ends_with('\n')) text.pop_back();
  return text;
}

/// Decodes the escapes of a string literal, as Python's.
class Unescaper {
 public:
  Unescaper(std::string_view literal, uint32_t line) : rest_(literal), line_(line) {}

  std::string run() {
    std::string out;
    while (!rest_.empty()) {
      const char c = take();
      if (c != '\\' || rest_.empty()) {
        out += c;
      } else {
        append_escape(out);
      }
    }
    return out;
  }

 private:
  char take() {
    const char c = rest_.front();
    rest_.remove_prefix(1);
    return c;
  }

  void append_escape(std::string& out) {
    static constexpr std::string_view kNames = "abfnrtv\\'\"", kValues = "\a\b\f\n\r\t\v\\'\"";
    const char c = take();
    if (const size_t at = kNames.find(c); at != std::string_view::npos) {
      out += kValues[at];
    } else if (c == 'x' || c == 'u' || c == 'U') {
      append_code(number(c == 'x' ? 2 : c == 'u' ? 4 : 8, 16), out);
    } else if (c >= '0' && c <= '7') {
      rest_ = std::string_view(rest_.data() - 1, rest_.size() + 1);
      size_t digits = 0;
      while (digits < 3 && digits < rest_.size() && rest_[digits] >= '0' && rest_[digits] <= '7') ++digits;
      append_code(number(digits, 8), out);
    } else if (c == 'N') {
      throw SyntaxFault{line_, "the escape \\N{...} in a string is not supported"};
    } else if (c != '\n') {  // a backslash at the end of a line joins lines; others stay
      out += '\\';
      out += c;
    }
  }

  uint32_t number(size_t digits, int base) {
    uint32_t code = 0;
    const std::string_view written = rest_.substr(0, digits);
    const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), code, base);
    if (written.size() < digits || error != std::errc() || end != written.data() + written.size())
      throw SyntaxFault{line_, fmt::format("an escape in a string has too few digits, it needs {}", digits)};
    rest_.remove_prefix(digits);
    return code;
  }

  void append_code(uint32_t code, std::string& out) const {
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
      throw SyntaxFault{line_, fmt::format("the escape {:#x} in a string is not a character", code)};
    append_utf8(static_cast<char32_t>(code), out);
  }

  std::string_view rest_;
  uint32_t line_;
};

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(with_plain_breaks(source, true)) {}

  std::vector<Token> run() {
    while (place_ < source_.size()) take_data();
    tokens_.push_back({TokenKind::end, line_});
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(place_); }
  bool at(std::string_view word) const { return rest().starts_with(word); }
  [[noreturn]] void fail(const std::string& message) const { throw SyntaxFault{line_, message}; }

  /// Moves on by `size` bytes.
  void advance(size_t size) {
    if (size == 0) return;
    const std::string_view passed = rest().substr(0, size);
    line_ += static_cast<uint32_t>(std::ranges::count(passed, '\n'));
    line_starts_ = passed.back() == '\n';
    place_ += size;
  }
  void skip_spaces() { advance(rest().size() - strip(rest(), std::nullopt, Sides::left).size()); }

  /// Adds the text before the tag of `width` signs that begins at `tag`, without what its marker or its kind removes.
  void add_data(size_t tag, bool block) {
    const char marker = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
    std::string_view text = rest().substr(0, tag - place_);
    if (marker == '-') {
      text = strip(text, std::nullopt, Sides::right);
    } else if (block && marker != '+') {
      const size_t begin = text.rfind('\n') + 1;  // 0 in the first line
      const bool line_begins = begin > 0 || line_starts_;
      if (line_begins && strip(text.substr(begin), std::nullopt).empty()) text = text.substr(0, begin);
    }
    if (!text.empty()) tokens_.push_back({TokenKind::data, line_, std::string(text)});
    advance(tag - place_);
    advance(marker == '-' || marker == '+' ? 3 : 2);
  }

  /// Text up to the next tag, and that tag.
  void take_data() {
    size_t tag = source_.find('{', place_);
    while (tag != std::string::npos &&
           (tag + 1 >= source_.size() || std::string_view("{%#").find(source_[tag + 1]) == std::string_view::npos))
      tag = source_.find('{', tag + 1);
    if (tag == std::string::npos) {
      tokens_.push_back({TokenKind::data, line_, std::string(rest())});
      advance(rest().size());
      return;
    }
    const char kind = source_[tag + 1];
    add_data(tag, kind != '{');
    if (kind == '#') {
      skip_comment();
    } else if (kind == '%' && begins_raw()) {
      take_raw();
    } else {
      tokens_.push_back({kind == '{' ? TokenKind::variable_begin : TokenKind::block_begin, line_});
      take_expression(kind != '{');
    }
  }

  void skip_comment() {
    const size_t end = rest().find("#}");
    if (end == std::string_view::npos) fail("a comment does not end: \"#}\" is missing");
    const bool cut = end > 0 && rest()[end - 1] == '-', kept = end > 0 && rest()[end - 1] == '+';
    advance(end + 2);
    if (cut) {
      skip_spaces();
    } else if (!kept && at("\n")) {
      advance(1);
    }
  }

  /// Whether the block that has just begun is {% raw %}; if so, moves behind it.
  bool begins_raw() {
    const std::string_view text = strip(rest(), std::nullopt, Sides::left);
    if (!text.starts_with("raw")) return false;
    const std::string_view end = strip(text.substr(3), std::nullopt, Sides::left);
    const bool cut = end.starts_with("-%}");
    if (!cut && !end.starts_with("%}")) return false;
    advance(rest().size() - end.size() + (cut ? 3 : 2));
    if (cut) skip_spaces();
    return true;
  }

  void take_raw() {
    for (size_t tag = source_.find("{%", place_); tag != std::string::npos; tag = source_.find("{%", tag + 1)) {
      std::string_view text = std::string_view(source_).substr(tag + 2);
      if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
      text = strip(text, std::nullopt, Sides::left);
      if (!text.starts_with("endraw")) continue;
      text = strip(text.substr(6), std::nullopt, Sides::left);
      const bool cut = text.starts_with("-%}"), kept = text.starts_with("+%}");
      if (!cut && !kept && !text.starts_with("%}")) continue;
      add_data(tag, true);
      advance(rest().size() - text.size() + (cut || kept ? 3 : 2));
      if (cut) skip_spaces();
      if (!cut && !kept && at("\n")) advance(1);
      return;
    }
    fail("{% raw %} does not end: {% endraw %} is missing");
  }

  /// The end of a tag, if it is here.
  bool take_end(bool block) {
    const std::string_view end = block ? "%}" : "}}";
    const bool cut = at("-") && rest().substr(1).starts_with(end);
    const bool kept = block && at("+%}");
    if (!cut && !kept && !at(end)) return false;
    tokens_.push_back({block ? TokenKind::block_end : TokenKind::variable_end, line_});
    advance(cut || kept ? 3 : 2);
    if (cut) skip_spaces();
    if (block && !cut && !kept && at("\n")) advance(1);
    return true;
  }

  void take_expression(bool block) {
    std::string open;  // closing brackets that are awaited
    while (place_ < source_.size()) {
      if (open.empty() && take_end(block)) return;
      const char c = source_[place_];
      if (is_space(decode_utf8(source_.data() + place_, source_.data() + source_.size()).code)) {
        skip_spaces();
      } else if (is_digit(c)) {
        take_number();
      } else if (is_letter(c)) {
        take_name();
      } else if (c == '"' || c == '\'') {
        take_string(c);
      } else {
        take_sign(open);
      }
    }
    fail(fmt::format("a tag does not end: \"{}\" is missing", !open.empty() ? open.substr(open.size() - 1)
                                                              : block       ? "%}"
                                                                            : "}}"));
  }

  void take_name() {
    size_t size = 1;
    while (size < rest().size() && (is_letter(rest()[size]) || is_digit(rest()[size]))) ++size;
    tokens_.push_back({TokenKind::name, line_, std::string(rest().substr(0, size))});
    advance(size);
  }

  void take_number() {
    const std::string_view text = rest();
    size_t size = 0;
    const auto digits = [&] {
      const size_t before = size;
      while (size < text.size() && is_digit(text[size])) ++size;
      return size > before;
    };
    digits();
    const size_t whole = size;
    const bool after_point = place_ > 0 && source_[place_ - 1] == '.';
    if (!after_point) {
      if (size < text.size() && text[size] == '.' && (++size, !digits())) size = whole;
      const size_t mantissa = size;
      if (size < text.size() && (text[size] == 'e' || text[size] == 'E')) {
        ++size;
        if (size < text.size() && (text[size] == '+' || text[size] == '-')) ++size;
        if (!digits()) size = mantissa;
      }
    }
    if (size < text.size() && (is_letter(text[size])))
      fail(fmt::format("a number is followed by a letter, near \"{}\"", whole_piece(size + 1)));
    Token token{size == whole ? TokenKind::integer : TokenKind::number, line_};
    const char *const begin = text.data(), *const end = begin + size;
    const std::errc error =
        size == whole ? std::from_chars(begin, end, token.integer).ec : std::from_chars(begin, end, token.number).ec;
    if (error != std::errc() || (size == whole && whole > 1 && text[0] == '0' && token.integer != 0))
      fail(fmt::format("\"{}\" is not a number of at most 64 bits", whole_piece(size)));
    tokens_.push_back(token);
    advance(size);
  }

  /// At most 40 bytes of the text here, for a message.
  std::string whole_piece(size_t size) const { return std::string(rest().substr(0, std::min<size_t>(size, 40))); }

  void take_string(char quote) {
    size_t size = 1;
    while (size < rest().size() && rest()[size] != quote) size += rest()[size] == '\\' ? 2 : 1;
    if (size >= rest().size()) fail(fmt::format("a string does not end: {} is missing", quote));
    const std::string_view literal = rest().substr(1, size - 1);
    tokens_.push_back({TokenKind::string, line_, Unescaper(literal, line_).run()});
    advance(size + 1);
  }

  void take_sign(std::string& open) {
    static constexpr std::string_view kSigns[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "*",
                                                  "/",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                  ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    const auto sign = std::ranges::find_if(kSigns, [&](std::string_view known) { return at(known); });
    if (sign == std::end(kSigns)) {
      const Decoded found = decode_utf8(source_.data() + place_, source_.data() + source_.size());
      fail(fmt::format("unexpected character \"{}\" in a tag", rest().substr(0, found.length)));
    }
    static constexpr std::string_view kOpen = "([{", kClosed = ")]}";
    if (const size_t bracket = kOpen.find(*sign); sign->size() == 1 && bracket != std::string_view::npos) {
      open += kClosed[bracket];
    } else if (sign->size() == 1 && kClosed.find(*sign) != std::string_view::npos) {
      if (open.empty() || open.back() != sign->front()) fail(fmt::format("unexpected \"{}\" in a tag", *sign));
      open.pop_back();
    }
    tokens_.push_back({TokenKind::sign, line_, std::string(*sign)});
    advance(sign->size());
  }

  std::string source_;
  size_t place_ = 0;
  uint32_t line_ = 1;
  bool line_starts_ = true;  ///< the last tag ended with a line break, or none was
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> cut_template(std::string_view source) { return Lexer(source).run(); }

}  // namespace trireme::chat
