#pragma once
// All ways to compose a token from two others, which define the merges if a file only has ranks.

#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace trireme {

struct TokenParts {
  TokenId left, right, whole;
};

/// In the order of tokens, and for one token by the ids of its parts. ids[i] is the id of tokens[i], whose text must
/// not move.
class TokenCuts {
 public:
  TokenCuts(const std::vector<std::string_view>& tokens, const std::vector<TokenId>& ids);
  /// Replaces `parts` by those of tokens[index].
  void of(size_t index, std::vector<TokenParts>& parts) const;

 private:
  const std::vector<std::string_view>& tokens_;
  const std::vector<TokenId>& ids_;
  // For each token the longest other token that it begins with, or ends with; the next shorter one is that token's.
  std::vector<uint32_t> beginnings_, ends_;
  std::vector<uint32_t> sizes_;  // of the tokens: smaller than their views
};

}  // namespace trireme
