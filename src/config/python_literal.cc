// Numbers and strings of config/python_expression.h.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "config/python_expression.h"

namespace trireme {
namespace {

void append_escape(std::string_view body, size_t& at, const PythonToken& token, const std::string& path,
                   std::string& out) {
  const char c = at + 1 < body.size() ? body[at + 1] : '\0';
  if (std::string_view("xuUNabfv01234567").find(c) != std::string_view::npos && c != '\0')
    fail_python(path, token.line, fmt::format("the escape \\{} is not supported; write the character itself", c));
  at += 2;
  constexpr std::string_view kLetters = "ntr\\'\"", kMeanings = "\n\t\r\\'\"";
  if (const size_t letter = kLetters.find(c); letter != std::string_view::npos) {
    out += kMeanings[letter];
  } else if (c == '\r' && at < body.size() && body[at] == '\n') {
    ++at;
  } else if (c != '\n') {  // a backslash at a line's end joins the lines; other escapes stay as written
    out += '\\';
    if (c != '\0') out += c;
  }
}

}  // namespace

Value python_number(const PythonToken& token, const std::string& path) {
  std::string digits(token.text);
  std::erase(digits, '_');
  int base = 10;
  if (digits.size() > 1 && digits[0] == '0') {
    const char letter = static_cast<char>(digits[1] | 0x20);
    base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
  }
  const char* const first = digits.data() + (base == 10 ? 0 : 2);
  const char* const last = digits.data() + digits.size();
  int64_t whole = 0;
  const auto as_whole = std::from_chars(first, last, whole, base);
  if (as_whole.ec == std::errc() && as_whole.ptr == last) return whole;
  double real = 0;
  const auto as_real = std::from_chars(first, last, real);
  const bool too_large = as_whole.ptr == last || as_real.ec == std::errc::result_out_of_range;
  if (base != 10 || too_large || as_real.ec != std::errc() || as_real.ptr != last) {
    fail_python(path, token.line,
                fmt::format("{} is {}", digits, too_large ? "outside the range of numbers" : "not a number"));
  }
  return real;
}

std::string python_string(const PythonToken& token, const std::string& path) {
  const size_t quote = token.text.find_first_of("'\"");
  const std::string_view prefix = token.text.substr(0, quote);
  const bool raw = prefix.find_first_of("rR") != std::string_view::npos;
  const std::string_view quoted = token.text.substr(quote);
  const bool triple = quoted.size() >= 6 && quoted[1] == quoted[0] && quoted[2] == quoted[0];
  const size_t marks = triple ? 3 : 1;
  const std::string_view body = quoted.substr(marks, quoted.size() - 2 * marks);
  std::string out;
  for (size_t at = 0; at < body.size();) {
    if (body[at] == '\\' && !raw) {
      append_escape(body, at, token, path, out);
    } else {
      out += body[at++];
    }
  }
  return out;
}

std::string python_rest_of_line(const PythonToken& token, std::string_view text) {
  constexpr size_t kShown = 40;
  const auto start = static_cast<size_t>(token.text.data() - text.data());
  const std::string_view rest = text.substr(std::min(start, text.size()));
  return std::string(rest.substr(0, std::min({rest.find('\n'), rest.find('\r'), kShown})));
}

}  // namespace trireme
