#include "config/python_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/error.h"

namespace trireme {
namespace {

using Kind = PythonToken::Kind;

bool begins_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || (c & 0x80) != 0; }
bool continues_name(char c) { return begins_name(c) || std::isdigit(static_cast<unsigned char>(c)); }

/// Columns of a line's indentation as Python counts them: with tabs to the next multiple of 8, and with tabs of
/// width 1.
struct Indent {
  size_t wide = 0, narrow = 0;
};

class PythonCutter {
 public:
  PythonCutter(std::string_view text, const std::string& path, int line) : text_(text), path_(path), line_(line) {}

  std::vector<PythonToken> cut() {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
    while (at_ < text_.size()) {
      if (at_line_start_ && open_ == 0) begin_line();
      if (at_ < text_.size()) cut_one();
    }
    if (!tokens_.empty() && tokens_.back().kind != Kind::newline) add(Kind::newline, at_, line_);
    for (; blocks_.size() > 1; blocks_.pop_back()) add(Kind::dedent, at_, line_);
    add(Kind::end, at_, line_);
    return std::move(tokens_);
  }

 private:
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  void add(Kind kind, size_t start, int line) { tokens_.push_back({kind, text_.substr(start, at_ - start), line}); }

  /// Handles the indentation of a line with more than blanks and a comment.
  void begin_line() {
    Indent indent;
    for (; peek() == ' ' || peek() == '\t' || peek() == '\f'; ++at_) {
      indent.wide = peek() == '\t' ? (indent.wide / 8 + 1) * 8 : indent.wide + 1;
      ++indent.narrow;
    }
    const bool continued = peek() == '\\' && (peek(1) == '\n' || peek(1) == '\r');
    if (peek() == '#' || peek() == '\n' || peek() == '\r' || continued || at_ >= text_.size()) return;
    at_line_start_ = false;
    constexpr size_t kMostBlocks = 100;  // Python's own limit
    const Indent& block = blocks_.back();
    require_clear(indent, block);
    if (indent.wide > block.wide) {
      if (blocks_.size() > kMostBlocks) fail_python(path_, line_, "blocks nest deeper than 100 levels");
      blocks_.push_back(indent);
      add(Kind::indent, at_, line_);
      return;
    }
    for (; indent.wide < blocks_.back().wide; blocks_.pop_back()) add(Kind::dedent, at_, line_);
    require_clear(indent, blocks_.back());
    if (indent.wide != blocks_.back().wide) fail_python(path_, line_, "the indentation matches no enclosing block");
  }

  /// The comparison of two indentations must not depend on the width of tabs.
  void require_clear(const Indent& a, const Indent& b) const {
    if ((a.wide < b.wide) != (a.narrow < b.narrow) || (a.wide > b.wide) != (a.narrow > b.narrow))
      fail_python(path_, line_, "the indentation mixes tabs and blanks; use only blanks");
  }

  void cut_one() {
    const char c = peek();
    if (c == '\n') return end_line();
    if (c == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f') {
      ++at_;
    } else if (c == '\\' && (peek(1) == '\n' || (peek(1) == '\r' && peek(2) == '\n'))) {
      at_ += peek(1) == '\n' ? 2 : 3;
      ++line_;
    } else if (const size_t prefix = string_prefix(); prefix != std::string_view::npos) {
      cut_string(prefix);
    } else if (begins_name(c)) {
      cut_while(Kind::name, continues_name);
    } else if (std::isdigit(static_cast<unsigned char>(c)) ||
               (c == '.' && std::isdigit(static_cast<unsigned char>(peek(1))))) {
      cut_number();
    } else {
      cut_sign();
    }
  }

  void end_line() {
    ++at_;
    if (open_ == 0 && !at_line_start_) add(Kind::newline, at_ - 1, line_);
    ++line_;
    if (open_ == 0) at_line_start_ = true;
  }

  template <class Test>
  void cut_while(Kind kind, Test belongs) {
    const size_t start = at_;
    while (at_ < text_.size() && belongs(peek())) ++at_;
    add(kind, start, line_);
  }

  /// Takes all attached characters, so that "5x" is one invalid number.
  void cut_number() {
    const size_t start = at_;
    const bool hexadecimal = peek() == '0' && (peek(1) == 'x' || peek(1) == 'X');
    while (continues_name(peek()) || peek() == '.' ||
           (!hexadecimal && (peek() == '+' || peek() == '-') && (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E'))) {
      ++at_;
    }
    add(Kind::number, start, line_);
  }

  void cut_sign() {
    constexpr std::string_view kSigns[] = {"**=", "//=", ">>=", "<<=", "...", "**", "//", ">>", "<<", "==", "!=", "<=",
                                           ">=",  "->",  "+=",  "-=",  "*=",  "/=", "%=", "&=", "|=", "^=", ":=", "@="};
    const size_t start = at_;
    const auto* const longer =
        std::ranges::find_if(kSigns, [&](std::string_view sign) { return text_.substr(at_).starts_with(sign); });
    at_ += longer == std::end(kSigns) ? 1 : longer->size();
    const char c = text_[start];
    if (c == '(' || c == '[' || c == '{') ++open_;
    if ((c == ')' || c == ']' || c == '}') && open_ > 0) --open_;
    add(Kind::sign, start, line_);
  }

  /// Letters before a quote, such as the f of f"..."; npos if no string begins here.
  size_t string_prefix() const {
    size_t letters = 0;
    while (letters < 2 && std::string_view("rRbBfFuU").find(peek(letters)) != std::string_view::npos &&
           peek(letters) != '\0') {
      ++letters;
    }
    return peek(letters) == '"' || peek(letters) == '\'' ? letters : std::string_view::npos;
  }

  void cut_string(size_t prefix) {
    const size_t start = at_;
    const int line = line_;
    at_ += prefix;
    const char quote = peek();
    const bool triple = peek(1) == quote && peek(2) == quote;
    const std::string closing(triple ? 3 : 1, quote);
    at_ += closing.size();
    while (!text_.substr(at_).starts_with(closing)) {
      if (at_ >= text_.size() || (!triple && peek() == '\n')) fail_python(path_, line, "a string is not closed");
      if (peek() == '\\') {
        line_ += peek(1) == '\n';
        ++at_;
        if (at_ < text_.size()) ++at_;
        continue;
      }
      line_ += peek() == '\n';
      ++at_;
    }
    at_ += closing.size();
    add(Kind::string, start, line);
  }

  std::string_view text_;
  const std::string& path_;
  int line_ = 1, open_ = 0;
  size_t at_ = 0;
  bool at_line_start_ = true;
  std::vector<Indent> blocks_{{}};
  std::vector<PythonToken> tokens_;
};

}  // namespace

std::vector<PythonToken> python_tokens(std::string_view text, const std::string& path, int line) {
  return PythonCutter(text, path, line).cut();
}

bool is_python_keyword(std::string_view word) {
  constexpr std::string_view kWords[] = {
      "and",      "as",     "assert",  "async", "await", "break",  "class", "continue", "def",  "del",  "elif",
      "else",     "except", "finally", "for",   "from",  "global", "if",    "import",   "in",   "is",   "lambda",
      "nonlocal", "not",    "or",      "pass",  "raise", "return", "try",   "while",    "with", "yield"};
  return std::ranges::find(kWords, word) != std::end(kWords);
}

void fail_python(const std::string& path, int line, const std::string& message) {
  fail(ErrorKind::config, "{}:{}: {}", path, line, message);
}

}  // namespace trireme
