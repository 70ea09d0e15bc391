#pragma once
// Every way to put a token together from two others, which is what merges are made of where a file has ranks alone.

#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace trireme {

struct TokenParts {
  TokenId left, right, whole;
};

/// Of all tokens in their order; of one token by the ids of its parts. ids[i] is the id of tokens[i], whose text stays
/// where it is.
class TokenCuts {
 public:
  TokenCuts(const std::vector<std::string_view>& tokens, const std::vector<TokenId>& ids);
  /// Those of tokens[index], instead of what was in `parts`.
  void of(size_t index, std::vector<TokenParts>& parts) const;

 private:
  const std::vector<std::string_view>& tokens_;
  const std::vector<TokenId>& ids_;
  // Of each token the longest token that it begins with, or ends with, and is not itself; the next one is that one's.
  std::vector<uint32_t> beginnings_, ends_;
  std::vector<uint32_t> sizes_;  // of the tokens: fewer bytes than their places take
};

}  // namespace trireme
