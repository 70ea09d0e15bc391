#pragma once
// Writes tokenizer.json for tokenizers from other sources: vocabulary and merges files, training, characters.

#include <string>
#include <utility>
#include <vector>

#include "text/pipeline/added_tokens.h"

namespace trireme {

struct BpeDescription {
  std::vector<std::pair<std::string, TokenId>> vocabulary;  ///< in the order of writing
  std::vector<std::pair<std::string, std::string>> merges;  ///< lowest rank first; no token contains a space
  std::vector<AddedToken> added;
  bool byte_level = true;           ///< GPT-2's byte alphabet, and its pattern by default; off: text is one piece
  std::string pattern;              ///< regular expression of the pieces
  bool composes = false;            ///< text becomes NFC first
  bool ignore_merges = false;       ///< a piece that is a token is that token
  std::optional<AddedToken> begin;  ///< put before every text
};

std::string write_tokenizer_json(const BpeDescription& tokenizer);

/// The value of "added_tokens".
std::string write_added_tokens(const std::vector<AddedToken>& added);

/// BERT's tokenizer over the lines of vocab.txt: a token's id is its line, the last one if several have it. Throws
/// Error::data if [UNK] is missing; [CLS] and [SEP] make the template if both are there.
std::string bert_tokenizer_json(const std::vector<std::string>& tokens, bool lower_case, const std::string& where);

/// NeoX's CharLevelTokenizer of 512 ids: each byte of UTF-8 is its own id; the ids from 256 on are unused.
std::string byte_tokenizer_json();

/// A tokenizer of single characters: ids in code point order, then, if `end_of_text`, <|endoftext|> as the last id.
/// Throws Error::data for bytes that are not UTF-8.
std::string character_tokenizer_json(const std::vector<char32_t>& characters, bool end_of_text);

}  // namespace trireme
