#include "config/python_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

namespace trireme {
namespace {

using Kind = PythonToken::Kind;
using std::string_view;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool begins_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || (c & 0x80) != 0; }
bool continues_name(char c) { return begins_name(c) || is_digit(c); }

class PythonCutter {
 public:
  PythonCutter(PythonCursor& in, int line) : in_(in), text_(in.text), line_(line) {}

  void cut() {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
    while (at_ < text_.size()) {
      if (at_line_start_ && open_ == 0) begin_line();
      if (at_ < text_.size()) cut_one();
    }
    if (!in_.tokens.empty() && in_.tokens.back().kind != Kind::newline) add(Kind::newline, at_);
    for (; blocks_.size() > 1; blocks_.pop_back()) add(Kind::dedent, at_);
    add(Kind::end, at_);
  }

 private:
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  void add(Kind kind, size_t start) { in_.tokens.push_back({kind, text_.substr(start, at_ - start), line_}); }
  [[noreturn]] void fail_here(const std::string& message) const { in_.fail_at({{}, {}, line_}, message); }

  /// Handles the indentation of a line with more than blanks and a comment.
  void begin_line() {
    const size_t start = at_;
    at_ = std::min(text_.find_first_not_of(" \t\f", at_), text_.size());
    const bool continued = peek() == '\\' && (peek(1) == '\n' || peek(1) == '\r');
    if (peek() == '#' || peek() == '\n' || peek() == '\r' || continued || at_ >= text_.size()) return;
    at_line_start_ = false;
    const string_view indent = text_.substr(start, at_ - start);
    const auto is_deeper = [&] {
      if (!indent.starts_with(blocks_.back()) && !blocks_.back().starts_with(indent))
        fail_here("the indentation mixes tabs and blanks; use only blanks");
      return indent.size() > blocks_.back().size();
    };
    if (is_deeper()) {
      constexpr size_t kMostBlocks = 100;  // Python's own limit
      if (blocks_.size() > kMostBlocks) fail_here("blocks nest deeper than 100 levels");
      blocks_.push_back(indent);
      return add(Kind::indent, at_);
    }
    for (; indent.size() < blocks_.back().size(); blocks_.pop_back()) add(Kind::dedent, at_);
    if (is_deeper()) fail_here("the indentation matches no enclosing block");
  }

  void cut_one() {
    const char c = peek();
    const size_t start = at_;
    if (c == '\n') {
      ++at_;
      if (open_ == 0 && !at_line_start_) add(Kind::newline, start);
      ++line_;
      if (open_ == 0) at_line_start_ = true;
    } else if (c == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f') {
      ++at_;
    } else if (c == '\\' && (peek(1) == '\n' || (peek(1) == '\r' && peek(2) == '\n'))) {
      at_ += peek(1) == '\n' ? 2 : 3;
      ++line_;
    } else if (const size_t prefix = string_prefix(); prefix != string_view::npos) {
      cut_string(prefix);
    } else if (begins_name(c)) {
      while (continues_name(peek())) ++at_;
      add(Kind::name, start);
    } else if (is_digit(c) || (c == '.' && is_digit(peek(1)))) {
      // with all attached characters, so that "5x" is one invalid number
      const bool hexadecimal = c == '0' && (peek(1) == 'x' || peek(1) == 'X');
      while (continues_name(peek()) || peek() == '.' ||
             (!hexadecimal && (peek() == '+' || peek() == '-') && (text_[at_ - 1] | 0x20) == 'e')) {
        ++at_;
      }
      add(Kind::number, start);
    } else {
      constexpr string_view kSigns[] = {"**=", "//=", ">>=", "<<=", "...", "**", "//", ">>", "<<", "==", "!=", "<=",
                                        ">=",  "->",  "+=",  "-=",  "*=",  "/=", "%=", "&=", "|=", "^=", ":=", "@="};
      const auto* const longer =
          std::ranges::find_if(kSigns, [&](string_view sign) { return text_.substr(at_).starts_with(sign); });
      at_ += longer == std::end(kSigns) ? 1 : longer->size();
      if (c == '(' || c == '[' || c == '{') ++open_;
      if ((c == ')' || c == ']' || c == '}') && open_ > 0) --open_;
      add(Kind::sign, start);
    }
  }

  /// Letters before a quote, such as the f of f"..."; npos if no string begins here.
  size_t string_prefix() const {
    size_t letters = 0;
    while (letters < 2 && peek(letters) != '\0' && string_view("rRbBfFuU").find(peek(letters)) != string_view::npos)
      ++letters;
    return peek(letters) == '"' || peek(letters) == '\'' ? letters : string_view::npos;
  }

  void cut_string(size_t prefix) {
    const size_t start = at_;
    at_ += prefix;
    const bool triple = peek(1) == peek() && peek(2) == peek();
    const std::string closing(triple ? 3 : 1, peek());
    at_ += closing.size();
    for (; !text_.substr(at_).starts_with(closing); ++at_) {
      if (at_ >= text_.size() || (!triple && peek() == '\n')) fail_here("a string is not closed");
      if (peek() == '\\' && at_ + 1 < text_.size()) ++at_;
    }
    at_ += closing.size();
    add(Kind::string, start);
    line_ += static_cast<int>(std::ranges::count(in_.tokens.back().text, '\n'));
  }

  PythonCursor& in_;
  string_view text_;
  int line_, open_ = 0;
  size_t at_ = 0;
  bool at_line_start_ = true;
  std::vector<string_view> blocks_{""};
};

}  // namespace

PythonCursor::PythonCursor(string_view code, std::string file, int line) : text(code), path(std::move(file)) {
  PythonCutter(*this, line).cut();
}

size_t PythonCursor::find(std::initializer_list<string_view> words) const {
  int open = 0;
  for (size_t i = at;; ++i) {
    const PythonToken& token = tokens[i];
    const bool closes = token.is(")") || token.is("]") || token.is("}");
    if (token.ends_line() || (closes && open-- == 0)) return i;
    if (open == 0 && std::ranges::any_of(words, [&](string_view word) { return token.is(word); })) return i;
    open += token.is("(") || token.is("[") || token.is("{");
  }
}

std::string PythonCursor::rest_of_line(const PythonToken& token) const {
  constexpr size_t kShown = 40;
  const string_view rest = text.substr(static_cast<size_t>(token.text.data() - text.data()));
  return std::string(rest.substr(0, std::min(rest.find_first_of("\r\n"), kShown)));
}

void PythonCursor::fail_at(const PythonToken& token, const std::string& message) const {
  throw PythonError(fmt::format("{}:{}: {}", path, token.line, message));
}

Value python_number(string_view token) {
  std::string digits(token);
  std::erase(digits, '_');
  const char letter = static_cast<char>(digits.size() > 1 && digits[0] == '0' ? digits[1] | 0x20 : 0);
  const int base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
  const char* const first = digits.data() + (base == 10 ? 0 : 2);
  const char* const last = digits.data() + digits.size();
  int64_t whole = 0;
  const auto as_whole = std::from_chars(first, last, whole, base);
  if (as_whole.ec == std::errc() && as_whole.ptr == last) return whole;
  double real = 0;
  const auto as_real = std::from_chars(first, last, real);
  if (base == 10 && as_whole.ptr != last && as_real.ec == std::errc() && as_real.ptr == last) return real;
  const bool too_large = as_whole.ptr == last || as_real.ec == std::errc::result_out_of_range;
  fail(ErrorKind::config, "{} is {}", digits, too_large ? "outside the range of numbers" : "not a number");
}

std::string python_string(string_view token) {
  const size_t quote = token.find_first_of("'\"");
  const bool raw = token.substr(0, quote).find_first_of("rR") != string_view::npos;
  string_view body = token.substr(quote);
  const size_t marks = body.size() >= 6 && body[1] == body[0] && body[2] == body[0] ? 3 : 1;
  body = body.substr(marks, body.size() - 2 * marks);
  std::string out;
  for (size_t i = 0; i < body.size(); ++i) {
    const char c = i + 1 < body.size() ? body[i + 1] : '\0';
    constexpr string_view kLetters = "ntr\\'\"", kMeanings = "\n\t\r\\'\"", kRefused = "xuUNabfv01234567";
    if (raw || body[i] != '\\' || c == '\0') {
      out += body[i];
    } else if (const size_t letter = kLetters.find(c); letter != string_view::npos) {
      out += kMeanings[letter];
      ++i;
    } else if (c == '\n' || c == '\r') {  // joins the lines
      i += c == '\r' && body.substr(i + 2).starts_with('\n') ? 2 : 1;
    } else {
      require(kRefused.find(c) == string_view::npos, ErrorKind::config,
              "the escape \\{} is not supported; write the character itself", c);
      out += '\\';  // other escapes stay as written
    }
  }
  return out;
}

bool is_python_keyword(string_view word) {
  return lists_word(
      "and as assert async await break class continue def del elif else except finally for from global if import in is "
      "lambda nonlocal not or pass raise return try while with yield",
      word);
}

}  // namespace trireme
