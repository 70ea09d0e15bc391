#include "text/regex/intervals.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/error.h"

namespace trireme {
namespace {

/// Where an interval is: its { and the + behind its }.
struct Interval {
  size_t open, plus;
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The place of the + of an interval that begins at `open`.
std::optional<size_t> plus_of(std::string_view pattern, size_t open) {
  size_t at = open + 1;
  const auto digits = [&] {
    const size_t first = at;
    while (at < pattern.size() && is_digit(pattern[at])) ++at;
    return at > first;
  };
  if (!digits()) return std::nullopt;
  if (at < pattern.size() && pattern[at] == ',') {
    ++at;
    digits();
  }
  if (!pattern.substr(std::min(at, pattern.size())).starts_with("}+")) return std::nullopt;
  return at + 1;
}

/// Those outside of [...] and of escapes as \x{41}.
std::vector<Interval> intervals_with_plus(std::string_view pattern) {
  std::vector<Interval> found;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\') {
      ++i;
      const bool braced = i + 1 < pattern.size() && pattern[i + 1] == '{';
      if (braced && std::string_view("pPxoNgku").find(pattern[i]) != std::string_view::npos)
        i = std::min(pattern.find('}', i), pattern.size());
    } else if (in_class) {
      in_class = c != ']';
    } else if (c == '[') {
      in_class = true;
      for (const char first : {'^', ']'})  // a ] in first place is itself
        if (i + 1 < pattern.size() && pattern[i + 1] == first) ++i;
    } else if (c == '{') {
      if (const auto plus = plus_of(pattern, i)) found.push_back({i, *plus});
    }
  }
  return found;
}

}  // namespace

std::string without_repeated_intervals(std::string_view pattern, std::string_view place) {
  std::string out(pattern);
  const std::vector<Interval> intervals = intervals_with_plus(pattern);
  for (auto interval = intervals.rbegin(); interval != intervals.rend(); ++interval) {
    const std::string text = out.substr(interval->open, interval->plus + 1 - interval->open);
    require(text.starts_with("{1,"), ErrorKind::data,
            "{}: the pattern repeats a repetition, {}, which is not supported; expected {{1,m}}+", place, text);
    out.replace(interval->open, text.size(), "+");
  }
  return out;
}

std::string without_possessive_intervals(std::string_view pattern) {
  std::string out(pattern);
  const std::vector<Interval> intervals = intervals_with_plus(pattern);
  for (auto interval = intervals.rbegin(); interval != intervals.rend(); ++interval) {
    const size_t next = interval->plus + 1;
    require(next == out.size() || out[next] == '|', ErrorKind::usage,
            "--pattern has the possessive repetition {} before the end of an alternative, which tokenizer.json cannot "
            "express; use an atomic group, (?>...)",
            out.substr(interval->open, next - interval->open));
    out.erase(interval->plus, 1);
  }
  return out;
}

}  // namespace trireme
