#include "cluster/hostlist.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "base/count.h"
#include "base/error.h"

namespace trireme {
namespace {

constexpr size_t kMaxNames = 65536, kMaxNameBytes = 255;  // the limit of DNS

/// Parses one name of an expression; every message names the expression, the name and the column in it.
class NameParser {
 public:
  NameParser(std::string_view name, std::string_view where) : name_(name), where_(where) {}

  std::vector<std::string> expand() {
    std::vector<std::string> names{""};
    bool bracketed = false;
    size_t at = 0;
    while (at < name_.size()) {
      const size_t open = name_.find_first_of("[]", at);
      if (open == std::string_view::npos) {
        check(!bracketed, at, "text after the last bracket; write one name per host");
        append(names, {std::string(name_.substr(at))});
        break;
      }
      check(name_[open] == '[', open, "\"]\" without \"[\"");
      const size_t close = name_.find_first_of("[]", open + 1);
      check(close != std::string_view::npos, open, "\"[\" is not closed");
      check(name_[close] == ']', close, "\"[\" inside brackets");
      append(names, {std::string(name_.substr(at, open - at))});
      append(names, ranges(open + 1, close));
      bracketed = true;
      at = close + 1;
    }
    return names;
  }

 private:
  void check(bool condition, size_t column, std::string_view reason) const {
    require(condition, ErrorKind::config, "{}: host list \"{}\", column {}: {}", where_, name_, column + 1, reason);
  }

  std::vector<std::string> ranges(size_t begin, size_t end) const {
    std::vector<std::string> values;
    for (size_t at = begin; at <= end;) {
      const size_t stop = std::min(name_.find(',', at), end);
      const std::string_view range = name_.substr(at, stop - at);
      const size_t dash = range.find('-');
      const std::string_view low = range.substr(0, dash);
      const std::string_view high = dash == std::string_view::npos ? low : range.substr(dash + 1);
      const uint64_t first = number(low, at), last = number(high, at);
      check(first <= last, at, "the range is descending");
      check(last - first < kMaxNames && values.size() + (last - first) < kMaxNames, at, "more than 65536 hosts");
      for (uint64_t value = first; value <= last; ++value) values.push_back(fmt::format("{:0{}}", value, low.size()));
      at = stop + 1;
    }
    return values;
  }

  uint64_t number(std::string_view digits, size_t column) const {
    uint64_t value = 0;
    const char* end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, value);
    check(!digits.empty() && stop == end && error == std::errc() && digits.size() <= 18, column,
          "expected a number or a range such as 1-4");
    return value;
  }

  void append(std::vector<std::string>& names, const std::vector<std::string>& endings) const {
    check(names.size() * endings.size() <= kMaxNames, 0, "more than 65536 hosts");
    std::vector<std::string> longer;
    longer.reserve(names.size() * endings.size());
    for (const std::string& name : names) {
      for (const std::string& ending : endings) {
        check(name.size() + ending.size() <= kMaxNameBytes, 0, "a name has more than 255 characters");
        longer.push_back(name + ending);
      }
    }
    names = std::move(longer);
  }

  std::string_view name_, where_;
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// A name as prefix and trailing number; without a number `digits` is empty.
struct Numbered {
  std::string_view prefix, digits;
  explicit Numbered(std::string_view name) {
    size_t at = name.size();
    while (at > 0 && is_digit(name[at - 1]) && name.size() - at < 18) --at;
    prefix = name.substr(0, at);
    digits = name.substr(at);
  }
  uint64_t value() const {
    uint64_t number = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), number);
    return number;
  }
  /// Whether `next` directly follows this one in a range: 9-10 without padding, 09-10 with padding.
  bool precedes(const Numbered& next) const {
    if (digits.empty() || next.digits.empty() || next.value() != value() + 1) return false;
    return next.digits == fmt::format("{:0{}}", next.value(), digits.size());
  }
};

}  // namespace

std::vector<std::string_view> split_outside_brackets(std::string_view text) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  bool inside = false;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : '\n';
    if (c == '[') inside = true;
    if (c == ']') inside = false;
    const bool separator = c == '\n' || (!inside && (c == ',' || c == ' ' || c == '\t' || c == '\r'));
    if (!separator) continue;
    if (i > begin) parts.push_back(text.substr(begin, i - begin));
    begin = i + 1;
    inside = false;
  }
  return parts;
}

std::vector<std::string> expand_hostlist(std::string_view expression, std::string_view where) {
  std::vector<std::string> names;
  for (std::string_view part : split_outside_brackets(expression)) {
    std::vector<std::string> more = NameParser(part, where).expand();
    require(names.size() + more.size() <= kMaxNames, ErrorKind::config, "{}: the host list has more than {}", where,
            count_text(kMaxNames, "host"));
    std::ranges::move(more, std::back_inserter(names));
  }
  return names;
}

std::string compress_hostlist(std::span<const std::string> names) {
  std::string out;
  for (size_t i = 0; i < names.size();) {
    const Numbered first(names[i]);
    std::string ranges;
    size_t in_group = 0, at = i;
    while (at < names.size()) {
      const Numbered low(names[at]);
      if (low.digits.empty() || low.prefix != first.prefix) break;
      Numbered high = low;
      size_t next = at + 1;
      for (; next < names.size(); ++next) {
        const Numbered candidate(names[next]);
        if (candidate.prefix != first.prefix || !high.precedes(candidate)) break;
        high = candidate;
      }
      if (!ranges.empty()) ranges += ',';
      ranges += low.digits;
      if (next - at > 1) ranges += fmt::format("-{}", high.digits);
      in_group += next - at;
      at = next;
    }
    if (!out.empty()) out += ',';
    out += in_group > 1 ? fmt::format("{}[{}]", first.prefix, ranges) : names[i];
    i += std::max<size_t>(in_group, 1);
  }
  return out;
}

}  // namespace trireme
