#pragma once
// Finds tokens that are written literally in the text, before the pre-tokenizer cuts it.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace trireme {

struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool single_word = false;                      ///< only between characters that are not word characters
  bool left_strip = false, right_strip = false;  ///< also removes the white space beside it
  bool normalized = true;                        ///< searched in the normalized text, in normalized form
  bool special = false;
};

/// Finds tokens from left to right, the longest one at each place.
class AddedTokenMatcher {
 public:
  AddedTokenMatcher() = default;
  /// `patterns[i]` is the text of `tokens[i]`; empty patterns are skipped.
  AddedTokenMatcher(std::vector<std::string> patterns, std::vector<AddedToken> tokens);

  struct Match {
    size_t begin, end;  ///< including removed white space
    TokenId id;
    size_t next;  ///< start of the next search: also finds tokens inside the removed white space
  };
  /// First match at or after `at` (`next` of the last match) that removes nothing before `from` (the end of the last
  /// match). begin == npos: none. specials false: special tokens are plain text.
  Match find(std::string_view text, size_t from, size_t at, bool specials) const;
  bool empty(bool specials) const { return specials ? tokens_.empty() : !has_plain_; }

 private:
  /// Index of the longest pattern that begins at `at`, or -1.
  int longest(std::string_view text, size_t at) const;

  std::vector<std::string> patterns_;  // sorted
  std::vector<AddedToken> tokens_;
  std::array<uint32_t, 257> by_first_byte_{};
  std::vector<bool> first_two_bytes_;  // whether a pattern can begin with these two
  bool has_plain_ = false;
};

}  // namespace trireme
