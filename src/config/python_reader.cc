#include "config/python_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "config/python_arithmetic.h"
#include "config/yaml_reader.h"

namespace trireme {
namespace {

/// Raised where an expression would have to be executed: a call, an attribute, an index, a formatted string.
struct NeedsExecution {};

bool is_name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool is_name_part(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// Recursive descent over one text; position and line move together.
class Reader {
 public:
  Reader(std::string_view text, std::string path, std::map<std::string, Value> names)
      : text_(text), path_(std::move(path)), names_(std::move(names)) {}

  std::vector<Setting> file(int layer) {
    if (text_.starts_with("\xEF\xBB\xBF")) position_ = 3;
    std::vector<Setting> settings;
    while (next_statement()) statement(layer, settings);
    return settings;
  }

  /// The whole text as one literal with an optional sign. Throws Error::config if it is none.
  Value literal() {
    skip_blank();
    const bool negative = take('-');
    if (!is_name_start(peek()) || peek_string_prefix() || peek_word("True") || peek_word("False")) {
      const Value value = atom();
      skip_blank();
      if (at_end()) return negative ? python_negate(value) : value;
    }
    fail_here("not a literal");
  }

 private:
  static constexpr int kMaxDepth = 64;

  bool at_end() const { return position_ >= text_.size(); }
  char peek(size_t ahead = 0) const { return position_ + ahead < text_.size() ? text_[position_ + ahead] : '\0'; }
  void advance() { line_ += text_[position_++] == '\n'; }
  bool take(std::string_view word) {
    skip_blank();
    if (!text_.substr(position_).starts_with(word)) return false;
    position_ += word.size();
    return true;
  }
  bool take(char c) { return take(std::string_view(&c, 1)); }
  bool peek_word(std::string_view word) const {
    return text_.substr(position_).starts_with(word) && !is_name_part(peek(word.size()));
  }
  bool peek_string_prefix() const { return is_name_start(peek()) && (peek(1) == '\'' || peek(1) == '"'); }

  template <class... Args>
  [[noreturn]] void fail_here(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::config, "{}:{}: {}", path_, line_, fmt::format(format, std::forward<Args>(args)...));
  }

  /// Blanks, comments, continued lines, and inside brackets line ends.
  void skip_blank() {
    while (!at_end()) {
      if (peek() == '#') {
        while (!at_end() && peek() != '\n') advance();
      } else if (peek() == ' ' || peek() == '\t' || peek() == '\r' || (peek() == '\n' && brackets_ > 0)) {
        advance();
      } else if (peek() == '\\' && (peek(1) == '\n' || (peek(1) == '\r' && peek(2) == '\n'))) {
        while (peek() != '\n') advance();
        advance();
      } else {
        return;
      }
    }
  }

  /// Moves to the next statement; false at the end of the text.
  bool next_statement() {
    while (true) {
      const bool line_start = position_ == 0 || text_[position_ - 1] == '\n';
      const bool indented = line_start && (peek() == ' ' || peek() == '\t');
      skip_blank();
      if (at_end()) return false;
      if (peek() != '\n' && peek() != ';') {
        if (indented) fail_here("an indented line; only `name = value` lines are read, nothing is executed");
        return true;
      }
      advance();
    }
  }

  void end_statement() {
    skip_blank();
    if (!at_end() && peek() != '\n' && peek() != ';') {
      fail_here("found \"{}\" after the value; only literals and arithmetic are read", rest_of_line());
    }
  }

  std::string rest_of_line() const {
    const std::string_view rest = text_.substr(position_);
    constexpr size_t kShown = 40;
    return std::string(rest.substr(0, std::min({rest.find('\n'), rest.find('\r'), kShown})));
  }

  void statement(int layer, std::vector<Setting>& settings) {
    if (peek() == '"' || peek() == '\'') {  // a doc string
      string_literal();
      return end_statement();
    }
    if (peek_word("import") || peek_word("from")) return skip_statement();
    if (!is_name_start(peek())) fail_here("found \"{}\"; only `name = value` lines are read", rest_of_line());
    const int line = line_;
    const std::string shown = rest_of_line();
    const std::string name = identifier();
    if (!take('=') || peek() == '=') fail_here("found \"{}\"; only `name = value` lines are read", shown);
    skip_blank();
    const size_t start = position_;
    const int start_line = line_;
    Setting setting{name, {}, "", {path_, line, layer}, ""};
    try {
      setting.value = expression();
      setting.text = to_text(setting.value);
      if (std::holds_alternative<std::monostate>(setting.value)) setting.problem = "None";
      end_statement();
      names_[name] = setting.value;
    } catch (const NeedsExecution&) {
      position_ = start;
      line_ = start_line;
      setting.problem = fmt::format("`{}`, which would have to be executed", rest_of_line());
      skip_statement();
      names_.erase(name);
    }
    std::erase_if(settings, [&](const Setting& earlier) { return earlier.key == name; });
    settings.push_back(std::move(setting));
  }

  /// To the end of the statement, over brackets and strings.
  void skip_statement() {
    int open = 0;
    while (!at_end() && (open > 0 || (peek() != '\n' && peek() != ';'))) {
      if (peek() == '"' || peek() == '\'') {
        string_literal();
        continue;
      }
      if (peek() == '#') {
        while (!at_end() && peek() != '\n') advance();
        continue;
      }
      open += std::string_view("([{").find(peek()) != std::string_view::npos;
      open -= std::string_view(")]}").find(peek()) != std::string_view::npos;
      advance();
    }
  }

  Value expression() {
    if (++depth_ > kMaxDepth) fail_here("an expression nests deeper than {} levels", kMaxDepth);
    Value value = term();
    while (true) {
      skip_blank();
      const char sign = peek();
      if (sign != '+' && sign != '-') break;
      advance();
      value = combine(std::string(1, sign), value, term());
    }
    --depth_;
    return value;
  }
  Value term() {
    Value value = factor();
    while (true) {
      if (take("//")) {
        value = combine("//", value, factor());
      } else if (peek() == '*' && peek(1) != '*') {
        advance();
        value = combine("*", value, factor());
      } else if (peek() == '/' || peek() == '%') {
        const std::string sign(1, peek());
        advance();
        value = combine(sign, value, factor());
      } else {
        return value;
      }
    }
  }
  Value factor() {
    bool negative = false, signed_value = false;
    while (true) {  // a loop, not recursion: signs cost no stack
      if (take('-')) {
        negative = !negative;
        signed_value = true;
      } else if (take('+')) {
        signed_value = true;
      } else {
        break;
      }
    }
    Value value = power();
    if (!signed_value) return value;
    return checked([&] { return negative ? python_negate(value) : python_combine("+", int64_t{0}, value); });
  }
  Value power() {
    Value base = atom();
    if (!take("**")) return base;
    if (++depth_ > kMaxDepth) fail_here("an expression nests deeper than {} levels", kMaxDepth);
    const Value exponent = factor();
    --depth_;
    return combine("**", base, exponent);
  }
  Value atom() {
    skip_blank();
    Value value;
    if (peek() == '(') {
      advance();
      ++brackets_;
      value = expression();
      if (!take(')')) fail_here("')' is missing");
      --brackets_;
    } else if (peek() == '"' || peek() == '\'') {
      std::string text;
      for (; peek() == '"' || peek() == '\''; skip_blank()) text += string_literal();
      value = text;
    } else if (std::isdigit(static_cast<unsigned char>(peek())) || peek() == '.') {
      value = number();
    } else if (peek_string_prefix() || peek() == '[' || peek() == '{') {
      throw NeedsExecution{};
    } else if (is_name_start(peek())) {
      value = named_value();
    } else {
      fail_here("a value is missing before \"{}\"", rest_of_line());
    }
    skip_blank();
    if (peek() == '(' || peek() == '[' || peek() == '.') throw NeedsExecution{};
    return value;
  }

  std::string identifier() {
    const size_t start = position_;
    while (is_name_part(peek())) advance();
    return std::string(text_.substr(start, position_ - start));
  }
  Value named_value() {
    const std::string name = identifier();
    if (name == "True") return true;
    if (name == "False") return false;
    if (name == "None") return std::monostate{};
    skip_blank();
    if (peek() == '(' || peek() == '.' || peek() == '[') throw NeedsExecution{};
    const auto found = names_.find(name);
    if (found == names_.end()) fail_here("\"{}\" has no value here; assign it first", name);
    return found->second;
  }
  Value number() {
    const size_t start = position_;
    while (is_name_part(peek()) || peek() == '.' ||
           ((peek() == '+' || peek() == '-') && (text_[position_ - 1] == 'e' || text_[position_ - 1] == 'E') &&
            !text_.substr(start).starts_with("0x"))) {
      advance();
    }
    std::string digits(text_.substr(start, position_ - start));
    std::erase(digits, '_');
    const bool hexadecimal = digits.starts_with("0x") || digits.starts_with("0X");
    const char* first = digits.data() + (hexadecimal ? 2 : 0);
    const char* last = digits.data() + digits.size();
    int64_t whole = 0;
    const auto as_whole = std::from_chars(first, last, whole, hexadecimal ? 16 : 10);
    if (as_whole.ec == std::errc() && as_whole.ptr == last) return whole;
    double real = 0;
    const auto as_real = std::from_chars(first, last, real);
    const bool too_large = as_whole.ptr == last || as_real.ec == std::errc::result_out_of_range;
    if (hexadecimal || too_large || as_real.ec != std::errc() || as_real.ptr != last) {
      fail_here("{} is {}", digits, too_large ? "outside of the range of numbers" : "not a number");
    }
    return real;
  }

  std::string string_literal() {
    const char quote = peek();
    const bool triple = peek(1) == quote && peek(2) == quote;
    const std::string closing(triple ? 3 : 1, quote);
    const int first_line = line_;
    position_ += closing.size();
    std::string result;
    while (!text_.substr(position_).starts_with(closing)) {
      if (at_end() || (!triple && peek() == '\n')) {
        line_ = first_line;
        fail_here("a string is not closed");
      }
      if (peek() == '\\' && position_ + 1 < text_.size()) {
        escape(result);
      } else {
        result += peek();
        advance();
      }
    }
    position_ += closing.size();
    return result;
  }
  void escape(std::string& result) {
    advance();
    const char c = peek();
    advance();
    constexpr std::string_view kLetters = "ntr\\'\"", kMeanings = "\n\t\r\\'\"";
    if (std::string_view("xuUNabfv01234567").find(c) != std::string_view::npos)
      fail_here("the escape \\{} is not read; write the character itself", c);
    if (const size_t at = kLetters.find(c); at != std::string_view::npos) {
      result += kMeanings[at];
    } else if (c != '\n') {  // a backslash at a line's end joins the lines; other escapes stay as written
      result += '\\';
      result += c;
    }
  }

  template <class F>
  Value checked(F compute) const {
    try {
      return compute();
    } catch (const Error& e) {
      fail_here("{}", e.what());
    }
  }
  Value combine(std::string_view sign, const Value& a, const Value& b) const {
    return checked([&] { return python_combine(sign, a, b); });
  }

  std::string_view text_;
  std::string path_;
  std::map<std::string, Value> names_;
  size_t position_ = 0;
  int line_ = 1, brackets_ = 0, depth_ = 0;
};

}  // namespace

std::vector<Setting> parse_python(const std::string& text, const std::string& path, int layer,
                                  std::map<std::string, Value> names) {
  return Reader(text, path, std::move(names)).file(layer);
}

std::vector<Setting> read_python(const std::string& path, int layer, std::map<std::string, Value> names) {
  return parse_python(read_config_text(path), path, layer, std::move(names));
}

Value python_word(std::string_view text) {
  try {
    return Reader(text, "", {}).literal();
  } catch (const Error&) {
  } catch (const NeedsExecution&) {
  }
  return std::string(text);
}

}  // namespace trireme
