#pragma once
// Builds tokenizers from text or tables that they take over, for the loaders of file formats.

#include <memory>
#include <string>
#include <string_view>

#include "text/files/tokenizer_writer.h"
#include "text/models/bpe_merges.h"
#include "text/models/vocabulary.h"

namespace trireme {

/// tokenizer_from_json() without a copy of the text.
std::unique_ptr<Tokenizer> tokenizer_from_text(std::string json, std::string_view where);

/// The added tokens of the value of "added_tokens" in a tokenizer.json. Throws Error::data.
std::vector<AddedToken> read_added_tokens(std::string_view list, std::string_view where);

struct BpeTables {
  Vocabulary vocabulary;
  MergeTable merges;
};

/// The tokenizer of a description whose vocabulary and merges are in tables; its own are empty. The tokenizer.json of
/// both is written on demand.
std::unique_ptr<Tokenizer> tokenizer_from_tables(BpeDescription frame, BpeTables tables, std::string_view where);

/// The tokenizer of a description; moves its vocabulary and merges to tables.
std::unique_ptr<Tokenizer> tokenizer_from_description(BpeDescription description, std::string_view where);

}  // namespace trireme
