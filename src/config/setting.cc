#include "config/setting.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

namespace trireme {
namespace {

// Optimal string alignment: insertions, deletions, replacements and swaps of neighbours.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::string_view last_part(std::string_view key) { return key.substr(key.rfind('.') + 1); }

}  // namespace

Value resolve_plain(std::string_view text) {
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  std::string_view digits = text;
  if (digits.starts_with('+')) digits.remove_prefix(1);
  const std::string_view unsigned_digits = digits.substr(digits.starts_with('-'));
  if (unsigned_digits.empty()) return std::string(text);
  const char* end = digits.data() + digits.size();
  int64_t whole = 0;
  if (const auto r = std::from_chars(digits.data(), end, whole); r.ec == std::errc() && r.ptr == end) return whole;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (unsigned_digits == ".inf" || unsigned_digits == ".Inf" || unsigned_digits == ".INF") return kInfinity;
  if (text == ".nan" || text == ".NaN" || text == ".NAN") return std::numeric_limits<double>::quiet_NaN();
  double number = 0;
  const auto r = std::from_chars(digits.data(), end, number);
  if (r.ptr != end || r.ec == std::errc::invalid_argument) return std::string(text);
  if (r.ec == std::errc::result_out_of_range) return kInfinity;
  return number;
}

std::string to_text(const Value& value) {
  if (const auto* b = std::get_if<bool>(&value)) return *b ? "true" : "false";
  if (const auto* i = std::get_if<int64_t>(&value)) return fmt::format("{}", *i);
  if (const auto* d = std::get_if<double>(&value)) return fmt::format("{}", *d);
  if (const auto* s = std::get_if<std::string>(&value)) return *s;
  return "";
}

std::string place(const Setting& setting) {
  if (setting.origin.layer >= kFlagLayer) return setting.origin.source.substr(setting.origin.source.find(' ') + 1);
  return fmt::format("{}: {}", setting.origin.text(), setting.key);
}

std::string describe(const Setting& setting) {
  if (std::holds_alternative<std::monostate>(setting.value)) return setting.problem;
  constexpr size_t kShown = 80;  // a value in a message stays on a line
  const std::string text = setting.text.size() > kShown ? setting.text.substr(0, kShown) + "..." : setting.text;
  return std::holds_alternative<std::string>(setting.value) ? fmt::format("\"{}\"", text) : text;
}

std::string canonical(std::string_view key) {
  std::string text(key);
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

std::string nearest_name(std::string_view key, const std::vector<std::string>& names) {
  constexpr size_t kLongestKey = 100;  // no name is near a longer one, and the distance is quadratic
  if (key.size() > kLongestKey) return "";
  const std::string wanted = canonical(key);
  std::string best;
  size_t best_distance = std::numeric_limits<size_t>::max();
  for (const std::string& name : names) {
    const std::string candidate = canonical(name);
    size_t distance = edit_distance(wanted, candidate);
    // The right word without a group or in the wrong one is near, but less so than a slip in the right group.
    const size_t penalty = wanted.find('.') == std::string::npos ? 1 : 2;
    distance = std::min(distance, edit_distance(last_part(wanted), last_part(candidate)) + penalty);
    if (distance < best_distance) best = name, best_distance = distance;
  }
  const size_t allowed = std::max<size_t>(2, last_part(wanted).size() / 3);
  return best_distance <= allowed ? best : "";
}

}  // namespace trireme
