#pragma once
// Writes tokenizer.json for tokenizers that come from elsewhere: vocabulary and merges files, training, characters.

#include <string>
#include <utility>
#include <vector>

#include "text/added_tokens.h"

namespace trireme {

struct BpeDescription {
  std::vector<std::pair<std::string, TokenId>> vocabulary;  ///< in the order in which they are written
  std::vector<std::pair<std::string, std::string>> merges;  ///< lowest rank first; no token holds a space
  std::vector<AddedToken> added;
  bool byte_level = true;           ///< GPT-2's pre-tokenizer and byte alphabet; off: the text is one piece
  std::optional<AddedToken> begin;  ///< put before every text
};

std::string write_tokenizer_json(const BpeDescription& tokenizer);

/// A tokenizer of single characters: ids in code point order, then, if `end_of_text`, <|endoftext|> as the last id.
/// Throws Error::data for bytes that are no UTF-8.
std::string character_tokenizer_json(const std::vector<char32_t>& characters, bool end_of_text);

}  // namespace trireme
