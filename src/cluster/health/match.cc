#include "cluster/health/match.h"

#include <fnmatch.h>
#include <regex.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

#include "base/error.h"
#include "cluster/hostlist.h"

namespace trireme::health {
namespace {

class Regex {
 public:
  explicit Regex(const std::string& pattern) : code_(regcomp(&regex_, pattern.c_str(), REG_EXTENDED | REG_NOSUB)) {}
  ~Regex() {
    if (code_ == 0) regfree(&regex_);
  }
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;

  std::string error() const {
    if (code_ == 0) return "";
    char text[200];
    regerror(code_, &regex_, text, sizeof text);
    return text;
  }
  bool found_in(const std::string& text) const { return regexec(&regex_, text.c_str(), 0, nullptr, 0) == 0; }

 private:
  regex_t regex_;
  int code_;
};

std::optional<uint64_t> to_number(std::string_view digits) {
  uint64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  if (digits.empty() || stop != end || error != std::errc()) return std::nullopt;
  return value;
}

struct Range {
  uint64_t first = 0, last = 0;
  size_t width = 0, width_of_last = 0;  ///< digits of both ends as written; names are padded to one of them
};

std::vector<Range> parse_ranges(std::string_view body, std::string_view whole) {
  std::vector<Range> ranges;
  for (size_t begin = 0; begin <= body.size();) {
    const size_t end = std::min(body.find(',', begin), body.size());
    const std::string_view part = body.substr(begin, end - begin);
    const size_t dash = part.find('-');
    const std::string_view low = part.substr(0, dash);
    const std::string_view high = dash == std::string_view::npos ? low : part.substr(dash + 1);
    const auto first = to_number(low), last = to_number(high);
    require(first && last, ErrorKind::config, "match \"{}\": \"{}\" is not a range such as 00-15", whole, part);
    ranges.push_back({std::min(*first, *last), std::max(*first, *last), low.size(), high.size()});
    begin = end + 1;
  }
  return ranges;
}

/// Whether `name` is one of the names of `pattern`, which may continue after its brackets ("n[1-3].cluster").
bool matches_ranges(std::string_view pattern, std::string_view name, std::string_view whole) {
  const size_t open = pattern.find('[');
  if (open == std::string_view::npos) return pattern == name;
  const size_t close = pattern.find(']', open);
  require(close != std::string_view::npos, ErrorKind::config, "match \"{}\": \"[\" is not closed", whole);
  const std::vector<Range> ranges = parse_ranges(pattern.substr(open + 1, close - open - 1), whole);
  if (!name.starts_with(pattern.substr(0, open))) return false;
  name.remove_prefix(open);
  for (size_t length = 1; length <= std::min<size_t>(name.size(), 18); ++length) {
    const auto value = to_number(name.substr(0, length));
    if (!value) break;
    for (const Range& range : ranges) {
      const bool width_fits =
          length == range.width || length == range.width_of_last || (length > range.width && name.front() != '0');
      if (width_fits && *value >= range.first && *value <= range.last &&
          matches_ranges(pattern.substr(close + 1), name.substr(length), whole)) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

Match::Match(std::string text) : text_(std::move(text)), pattern_(text_) {
  if (pattern_.starts_with('!')) {
    negated_ = true;
    pattern_.erase(0, 1);
  }
  require(!pattern_.starts_with('('), ErrorKind::config,
          "match \"{}\": matching by an external command is unsupported; use a glob, /regex/ or {{ranges}}", text_);
  if (pattern_.starts_with('/') && pattern_.size() > 1 && pattern_.ends_with('/')) {
    kind_ = Kind::regex;
    pattern_ = pattern_.substr(1, pattern_.size() - 2);
    const std::string error = Regex(pattern_).error();
    require(error.empty(), ErrorKind::config, "match \"{}\": {}", text_, error);
  } else if (pattern_.starts_with('{')) {
    require(pattern_.ends_with('}'), ErrorKind::config, "match \"{}\": \"{{\" is not closed", text_);
    kind_ = Kind::ranges;
    pattern_ = pattern_.substr(1, pattern_.size() - 2);
    for (std::string_view part : split_outside_brackets(pattern_)) matches_ranges(part, part, text_);
  }
}

bool Match::positive(std::string_view candidate) const {
  const std::string text(candidate);
  switch (kind_) {
    case Kind::glob:
      return fnmatch(pattern_.c_str(), text.c_str(), FNM_EXTMATCH) == 0;  // as in bash's [[ ]]
    case Kind::regex:
      return Regex(pattern_).found_in(text);
    case Kind::ranges:
      return std::ranges::any_of(split_outside_brackets(pattern_),
                                 [&](std::string_view part) { return matches_ranges(part, candidate, text_); });
  }
  return false;
}

bool Match::operator()(std::string_view candidate) const { return positive(candidate) != negated_; }

}  // namespace trireme::health
