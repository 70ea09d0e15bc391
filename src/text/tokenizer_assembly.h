#pragma once
// Tokenizers from text or tables that are given away, for the loaders of file formats.

#include <memory>
#include <string>
#include <string_view>

#include "text/bpe_merges.h"
#include "text/tokenizer_writer.h"
#include "text/vocabulary.h"

namespace trireme {

/// tokenizer_from_json() without a copy of the text.
std::unique_ptr<Tokenizer> tokenizer_from_text(std::string json, std::string_view where);

struct BpeTables {
  Vocabulary vocabulary;
  MergeTable merges;
};

/// The tokenizer of a description whose vocabulary and merges are in tables; its own are empty. What
/// write_tokenizer_json() writes of both is written when it is asked for.
std::unique_ptr<Tokenizer> tokenizer_from_tables(BpeDescription frame, BpeTables tables, std::string_view where);

/// The tokenizer of a description; its vocabulary and merges are moved to tables.
std::unique_ptr<Tokenizer> tokenizer_from_description(BpeDescription description, std::string_view where);

}  // namespace trireme
