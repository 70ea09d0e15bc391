#include "text/models/word_level.h"

#include "base/error.h"

namespace trireme {

void WordLevelModel::encode(std::string_view piece, ModelScratch&, std::vector<TokenId>& out) const {
  const std::optional<TokenId> id = vocabulary_.find(piece);
  require(
      id || unknown_, ErrorKind::data,
      "the text has \"{}\", which is missing from the tokenizer's vocabulary, and the tokenizer has no unknown token",
      piece);
  out.push_back(id ? *id : *unknown_);
}

}  // namespace trireme
