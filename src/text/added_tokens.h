#pragma once
// Tokens that are found in the text as they are written, before the pre-tokenizer cuts it.

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
  bool single_word = false;                      ///< only where no word character stands beside it
  bool left_strip = false, right_strip = false;  ///< takes the white space beside it along
  bool normalized = true;                        ///< looked for in the normalized text, normalized itself
  bool special = false;
};

/// Finds tokens from left to right, at each place the longest one.
class AddedTokenMatcher {
 public:
  AddedTokenMatcher() = default;
  /// `patterns[i]` is what is looked for, `tokens[i]` what it stands for; empty patterns are left out.
  AddedTokenMatcher(std::vector<std::string> patterns, std::vector<AddedToken> tokens);

  struct Match {
    size_t begin, end;  ///< white space that is taken along included
    TokenId id;
    size_t next;  ///< where the next one is looked for: tokens in white space that this one takes along are found, too
  };
  /// First match at or after `at` (`next` of the last one), which takes along nothing before `from` (its end).
  /// begin == npos: there is none. specials false: special tokens are plain text.
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
