#include "text/pipeline/added_tokens.h"

#include <algorithm>
#include <numeric>

#include "text/unicode.h"

namespace trireme {
namespace {

/// Start of the code point that ends at `at` > 0.
size_t code_point_before(std::string_view text, size_t at) {
  size_t start = at - 1;
  while (start > 0 && at - start < 4 && (static_cast<uint8_t>(text[start]) & 0xC0) == 0x80) --start;
  const Decoded whole = decode_utf8(text.data() + start, text.data() + at);
  return start + whole.length == at ? start : at - 1;
}

char32_t code_at(std::string_view text, size_t at) {
  return decode_utf8(text.data() + at, text.data() + text.size()).code;
}

bool is_word_char(char32_t code) { return (char_table()[code] & kWord) != 0; }

bool stands_alone(std::string_view text, size_t begin, size_t end) {
  if (begin > 0 && is_word_char(code_at(text, code_point_before(text, begin)))) return false;
  return end == text.size() || !is_word_char(code_at(text, end));
}

size_t strip_left(std::string_view text, size_t begin, size_t limit) {
  while (begin > limit) {
    const size_t before = code_point_before(text, begin);
    if (before < limit || !(char_table()[code_at(text, before)] & kSpace)) break;
    begin = before;
  }
  return begin;
}

size_t strip_right(std::string_view text, size_t end) {
  while (end < text.size()) {
    const Decoded next = decode_utf8(text.data() + end, text.data() + text.size());
    if (!(char_table()[next.code] & kSpace)) break;
    end += next.length;
  }
  return end;
}

uint8_t first_byte(std::string_view text) { return static_cast<uint8_t>(text[0]); }

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<std::string> patterns, std::vector<AddedToken> tokens) {
  std::vector<size_t> order;
  for (size_t i = 0; i < patterns.size(); ++i) {
    if (!patterns[i].empty()) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return patterns[a] < patterns[b]; });
  first_two_bytes_.resize(size_t{1} << 16);
  for (const size_t i : order) {
    const auto row = first_two_bytes_.begin() + (first_byte(patterns[i]) << 8);
    if (patterns[i].size() == 1)
      std::fill(row, row + 256, true);
    else
      row[static_cast<uint8_t>(patterns[i][1])] = true;
    ++by_first_byte_[first_byte(patterns[i]) + size_t{1}];
    has_plain_ = has_plain_ || !tokens[i].special;
    patterns_.push_back(std::move(patterns[i]));
    tokens_.push_back(std::move(tokens[i]));
  }
  std::partial_sum(by_first_byte_.begin(), by_first_byte_.end(), by_first_byte_.begin());
}

int AddedTokenMatcher::longest(std::string_view text, size_t at) const {
  const uint8_t first = static_cast<uint8_t>(text[at]);
  const uint8_t second = at + 1 < text.size() ? static_cast<uint8_t>(text[at + 1]) : 0;
  if (!first_two_bytes_[size_t{first} << 8 | second]) return -1;
  // Narrows the patterns to those that begin with the text's next bytes, one byte at a time; those that end there are
  // first.
  const auto begin = patterns_.begin();
  auto low = begin + by_first_byte_[first], high = begin + by_first_byte_[first + size_t{1}];
  int found = -1;
  for (size_t depth = 1; low != high; ++depth) {
    if (low->size() == depth) found = static_cast<int>(low - begin);
    if (at + depth >= text.size()) break;
    const auto byte = static_cast<uint8_t>(text[at + depth]);
    const auto byte_of = [depth](const std::string& pattern) {
      return pattern.size() <= depth ? -1 : int{static_cast<uint8_t>(pattern[depth])};
    };
    low = std::lower_bound(low, high, int{byte}, [&](const std::string& p, int b) { return byte_of(p) < b; });
    high = std::upper_bound(low, high, int{byte}, [&](int b, const std::string& p) { return b < byte_of(p); });
  }
  return found;
}

AddedTokenMatcher::Match AddedTokenMatcher::find(std::string_view text, size_t from, size_t at, bool specials) const {
  for (; at < text.size(); ++at) {
    const uint8_t first = static_cast<uint8_t>(text[at]);
    if (by_first_byte_[first] == by_first_byte_[first + size_t{1}]) continue;
    const int index = longest(text, at);
    if (index < 0) continue;
    const AddedToken& token = tokens_[static_cast<size_t>(index)];
    const size_t length = patterns_[static_cast<size_t>(index)].size();
    size_t begin = at, end = at + length;
    if ((token.special && !specials) || (token.single_word && !stands_alone(text, begin, end))) {
      at += length - 1;  // does not read its bytes again
      continue;
    }
    if (token.left_strip) begin = strip_left(text, begin, from);
    if (token.right_strip) end = strip_right(text, end);
    return {begin, end, token.id, at + length};
  }
  return {std::string_view::npos, std::string_view::npos, 0, text.size()};
}

}  // namespace trireme
