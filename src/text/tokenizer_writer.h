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
  bool byte_level = true;      ///< GPT-2's byte alphabet, and its pattern if there is no other; off: text is one piece
  std::string pattern;         ///< regular expression of the pieces
  bool ignore_merges = false;  ///< a piece that is a token is that token
  std::optional<AddedToken> begin;  ///< put before every text
};

std::string write_tokenizer_json(const BpeDescription& tokenizer);

/// BERT's tokenizer over the lines of vocab.txt: a token's id is its line, the last one where several hold it. Throws
/// Error::data if [UNK] is missing; [CLS] and [SEP] make the template if both are there.
std::string bert_tokenizer_json(const std::vector<std::string>& tokens, bool lower_case, const std::string& where);

/// NeoX's CharLevelTokenizer of 512 ids: each byte of UTF-8 is its own number, the ids from 256 on stand for nothing.
std::string byte_tokenizer_json();

/// A tokenizer of single characters: ids in code point order, then, if `end_of_text`, <|endoftext|> as the last id.
/// Throws Error::data for bytes that are no UTF-8.
std::string character_tokenizer_json(const std::vector<char32_t>& characters, bool end_of_text);

}  // namespace trireme
