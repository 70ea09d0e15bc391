#include "config/setting.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/text.h"

namespace trireme {
namespace {

std::string_view last_part(std::string_view key) { return key.substr(key.rfind('.') + 1); }

std::string characters_of(std::string_view key, bool digits) {
  std::string out;
  for (const char c : key) {
    const bool digit = c >= '0' && c <= '9';
    if (c != '-' && c != '.' && (digits ? digit : true)) out += c;
  }
  return out;
}

std::vector<std::string_view> words_of(std::string_view key) {
  std::vector<std::string_view> words;
  for (size_t at = 0; at <= key.size();) {
    const size_t end = std::min(key.find_first_of("-.", at), key.size());
    if (end > at) words.push_back(key.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

/// The number of typing errors with which a word is still taken for this one.
size_t allowed_slips(size_t length) {
  constexpr size_t kShort = 3, kLong = 8;
  return length < kShort ? 0 : length < kLong ? 1 : 2;
}

/// The number of typing errors between the two; nothing if they are different words.
std::optional<size_t> slips_between(std::string_view wanted, std::string_view candidate) {
  const std::vector<std::string_view> ours = words_of(candidate), theirs = words_of(wanted);
  if (characters_of(wanted, true) != characters_of(candidate, true)) return std::nullopt;  // beta3 is not beta1
  if (ours.size() != theirs.size()) {  // one '-' too many or too few
    const std::string a = characters_of(wanted, false), b = characters_of(candidate, false);
    const size_t distance = edit_distance(a, b);
    return distance <= allowed_slips(std::min(a.size(), b.size())) ? std::optional(distance + 1) : std::nullopt;
  }
  size_t slips = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    const size_t distance = edit_distance(theirs[i], ours[i]);
    if (distance > allowed_slips(std::max(theirs[i].size(), ours[i].size()))) return std::nullopt;
    slips += distance;
  }
  return slips;
}

bool all_in(std::string_view text, std::string_view characters) {
  return !text.empty() && text.find_first_not_of(characters) == std::string_view::npos;
}

std::optional<int64_t> whole_number(std::string digits, int base, bool negative) {
  std::erase(digits, '_');
  int64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto r = std::from_chars(digits.data(), end, value, base);
  if (digits.empty() || r.ec != std::errc() || r.ptr != end) return std::nullopt;
  return negative ? -value : value;
}

/// "1:30" is 90.
std::optional<int64_t> sexagesimal(std::string_view text, bool negative) {
  int64_t sum = 0;
  constexpr int64_t kBase = 60, kMost = INT64_MAX / kBase - kBase;
  for (bool first = true; !text.empty(); first = false) {
    const size_t colon = std::min(text.find(':'), text.size());
    const std::string_view part = text.substr(0, colon);
    const auto number = whole_number(std::string(part), 10, false);
    if (!number || (!first && (part.size() > 2 || *number >= kBase)) || sum > kMost) return std::nullopt;
    sum = sum * kBase + *number;
    text.remove_prefix(std::min(colon + 1, text.size()));
  }
  return negative ? -sum : sum;
}

}  // namespace

std::optional<Value> resolve_pyyaml(std::string_view text) {
  for (const std::string_view word : {"yes", "Yes", "YES", "on", "On", "ON"}) {
    if (text == word) return true;
  }
  for (const std::string_view word : {"no", "No", "NO", "off", "Off", "OFF"}) {
    if (text == word) return false;
  }
  std::string_view digits = text;
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.remove_prefix(1);
  constexpr std::string_view kDecimal = "0123456789_";
  std::optional<int64_t> whole;
  if (digits.empty() || digits[0] < '0' || digits[0] > '9') return std::nullopt;
  if (digits.starts_with("0x") && all_in(digits.substr(2), "0123456789abcdefABCDEF_")) {
    whole = whole_number(std::string(digits.substr(2)), 16, negative);
  } else if (digits.starts_with("0b") && all_in(digits.substr(2), "01_")) {
    whole = whole_number(std::string(digits.substr(2)), 2, negative);
  } else if (digits.size() > 1 && digits[0] == '0' && all_in(digits.substr(1), "01234567_")) {
    whole = whole_number(std::string(digits.substr(1)), 8, negative);
  } else if (digits[0] != '0' && all_in(digits, kDecimal) && digits.find('_') != std::string_view::npos) {
    whole = whole_number(std::string(digits), 10, negative);
  } else if (digits[0] != '0' && digits.find(':') != std::string_view::npos && digits.back() != ':') {
    whole = sexagesimal(digits, negative);
  } else if (digits.find('_') != std::string_view::npos && digits.find('.') != std::string_view::npos) {
    std::string plain(text);
    std::erase(plain, '_');
    const Value value = resolve_plain(plain);
    if (std::holds_alternative<double>(value)) return value;
  }
  return whole ? std::optional<Value>(*whole) : std::nullopt;
}

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
  constexpr size_t kShown = 80;  // a value in a message must fit in a line
  const std::string text = setting.text.size() > kShown ? setting.text.substr(0, kShown) + "..." : setting.text;
  return std::holds_alternative<std::string>(setting.value) ? fmt::format("\"{}\"", text) : text;
}

std::string canonical(std::string_view key) {
  std::string text(key);
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

bool is_misspelling_of(std::string_view key, std::string_view name) {
  constexpr size_t kLongestKey = 100, kShortest = 5, kLong = 10;
  if (key.size() > kLongestKey) return false;
  const auto letters = [](std::string_view text) {
    std::string kept(text);
    std::erase_if(kept, [](char c) { return c == '-' || c == '_'; });
    return kept;
  };
  const std::string typed = letters(key), meant = letters(name);
  if (typed.size() < kShortest) return typed == meant;
  return edit_distance(typed, meant) <= (typed.size() < kLong ? 1 : 2);
}

std::string nearest_name(std::string_view key, const std::vector<std::string>& names) {
  constexpr size_t kLongestKey = 100;  // no name is similar to a longer one, and the distance takes quadratic time
  if (key.size() > kLongestKey) return "";
  const std::string wanted = canonical(key);
  const bool grouped = wanted.find('.') != std::string::npos;
  std::string best;
  constexpr size_t kFar = std::numeric_limits<size_t>::max();
  size_t best_slips = kFar;
  for (const std::string& name : names) {
    const std::string candidate = canonical(name);
    size_t slips = slips_between(wanted, candidate).value_or(kFar);
    // The right word without its group, or with another group: similar, but less so, and only if no other name has the
    // same ending. A typing error is allowed only in long words: --dta is not mesh.data.
    constexpr size_t kOtherGroup = 10, kLong = 7;
    if (slips == kFar && (!grouped || candidate.find('.') != std::string::npos)) {
      const std::string_view typed = last_part(wanted), meant = last_part(candidate);
      const size_t near = slips_between(typed, meant).value_or(kFar);
      if (near <= (std::min(typed.size(), meant.size()) < kLong ? 0U : 1U)) slips = near + kOtherGroup;
    }
    if (slips == kFar || slips > best_slips) continue;
    if (slips == best_slips && canonical(best) != candidate) {
      best.clear();
    } else {
      best = name, best_slips = slips;
    }
  }
  return best;
}

std::string nearest_name(std::string_view key, const std::vector<std::string>& names,
                         std::span<const Synonym> synonyms) {
  const std::string wanted = canonical(key);
  for (const Synonym& synonym : synonyms) {
    if (lists_word(canonical(synonym.theirs), wanted)) return synonym.ours;
  }
  return nearest_name(key, names);
}

}  // namespace trireme
