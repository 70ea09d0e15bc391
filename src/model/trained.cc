#include "model/trained.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text.h"

namespace trireme {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The digits that a text begins with.
std::string_view leading_digits(std::string_view text) {
  return text.substr(0, static_cast<size_t>(std::ranges::find_if_not(text, is_digit) - text.begin()));
}

/// As numbers, of any length.
bool is_less(std::string_view a, std::string_view b) {
  const auto plain = [](std::string_view digits) {
    return digits.substr(std::min(digits.find_first_not_of('0'), digits.size()));
  };
  a = plain(a);
  b = plain(b);
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

/// Whether the pattern matches a beginning of the name that ends with the name or before a dot.
bool matches_from(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty() || name.front() == '.';
  if (pattern.front() == '*') {
    for (size_t skipped = 0; skipped <= name.size(); ++skipped)
      if (matches_from(pattern.substr(1), name.substr(skipped))) return true;
    return false;
  }
  const std::string_view first = leading_digits(pattern);
  if (!first.empty() && pattern.size() > first.size() && pattern[first.size()] == '-') {
    const std::string_view last = leading_digits(pattern.substr(first.size() + 1)), number = leading_digits(name);
    if (!last.empty())
      return !number.empty() && !is_less(number, first) && !is_less(last, number) &&
             matches_from(pattern.substr(first.size() + 1 + last.size()), name.substr(number.size()));
  }
  if (name.empty() || (pattern.front() != '?' && pattern.front() != name.front())) return false;
  return matches_from(pattern.substr(1), name.substr(1));
}

std::vector<std::string> patterns_of(const char* option, std::string_view list) {
  std::vector<std::string> patterns;
  if (list.empty()) return patterns;
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    std::string_view pattern = list.substr(at, end - at);
    const size_t begin = std::min(pattern.find_first_not_of(' '), pattern.size());
    pattern = pattern.substr(begin, pattern.find_last_not_of(' ') + 1 - begin);
    require(!pattern.empty(), ErrorKind::config,
            "{} is \"{}\", which has an empty pattern; write names separated by commas, such as embedding,block.0-5",
            option, list);
    patterns.emplace_back(pattern);
    at = end + 1;
  }
  return patterns;
}

bool matches_any(const std::vector<std::string>& patterns, std::string_view name) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) { return matches_name(pattern, name); });
}

/// The names and all of their beginnings before a dot.
std::vector<std::string> names_and_parts(std::span<const std::string> names) {
  std::set<std::string> all;
  for (const std::string& name : names) {
    all.insert(name);
    for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1))
      all.insert(name.substr(0, dot));
  }
  return {all.begin(), all.end()};
}

/// What the names begin with, in their order.
std::vector<std::string> first_words(std::span<const std::string> names) {
  std::vector<std::string> words;
  for (const std::string& name : names) {
    std::string word = name.substr(0, name.find('.'));
    if (std::ranges::find(words, word) == words.end()) words.push_back(std::move(word));
  }
  return words;
}

void require_matches(const char* option, const std::vector<std::string>& patterns, std::span<const std::string> names) {
  for (const std::string& pattern : patterns) {
    const bool matches =
        std::ranges::any_of(names, [&](const std::string& name) { return matches_name(pattern, name); });
    require(matches, ErrorKind::config,
            "{}: \"{}\" matches no parameter of the model; the nearest name is \"{}\". The names of this model begin "
            "with {} (docs/training.md lists them)",
            option, pattern, nearest(pattern, names_and_parts(names)), fmt::join(first_words(names), ", "));
  }
}

}  // namespace

bool matches_name(std::string_view pattern, std::string_view name) { return matches_from(pattern, name); }

Trained::Trained(std::string_view only, std::string_view freeze)
    : only_(patterns_of("train.only", only)), freeze_(patterns_of("train.freeze", freeze)) {}

bool Trained::includes(std::string_view name) const {
  return (only_.empty() || matches_any(only_, name)) && !matches_any(freeze_, name);
}

void Trained::check(std::span<const std::string> names) const {
  require_matches("train.only", only_, names);
  require_matches("train.freeze", freeze_, names);
  require(std::ranges::any_of(names, [&](const std::string& name) { return includes(name); }), ErrorKind::config,
          "train.only and train.freeze leave none of the model's {} parameters to train; freeze fewer of them",
          names.size());
}

}  // namespace trireme
