#pragma once
// The vocabulary and the merges of a model: the parts of tokenizer.json with hundreds of thousands of entries. They are
// read directly from the text; everything else is a tree of a few kilobytes.

#include <string>
#include <string_view>
#include <vector>

#include "text/json_node.h"
#include "text/models/bpe_merges.h"
#include "text/models/vocabulary.h"

namespace trireme {

/// The parts of tokenizer.json.
struct TokenizerText {
  std::string frame;               ///< the file, with empty lists or objects for the model's "vocab" and "merges"
  std::string_view vocab, merges;  ///< their text; empty: missing, or neither a list nor an object
};
/// Text that is not JSON becomes the frame, whose reader reports the error.
TokenizerText split_tokenizer_text(std::string_view json);

/// {"token": id, ...}. `place` begins the errors.
Vocabulary read_vocabulary(std::string_view text, const std::string& place);

/// [["token", score], ...] of a Unigram model; the id is the index in the list.
struct ScoredVocabulary {
  Vocabulary vocabulary;
  std::vector<double> scores;
};
ScoredVocabulary read_scored_vocabulary(std::string_view text, const JsonObject& model);

/// Collects merges in the order of their ranks. Throws Error::data for tokens missing from the vocabulary and for a
/// repeated merge.
class MergeCollector {
 public:
  /// The second token of a merge begins with a prefix of this many bytes, which the merged token lacks.
  MergeCollector(const Vocabulary& vocabulary, size_t expected, size_t prefix_bytes, std::string place);
  void add(std::string_view left, std::string_view right);
  /// "a b", in older files. Tokens may contain spaces: the cut whose three tokens exist is then used.
  void add_joined(std::string_view text);
  MergeTable take() { return std::move(table_); }
  std::string place() const;  ///< of the next merge

 private:
  TokenId id_of(std::string_view token, std::string_view left, std::string_view right) const;
  TokenId merged_id(std::string_view left, std::string_view rest, std::string_view right);
  bool is_known(std::string_view left, std::string_view right) const;

  const Vocabulary& vocabulary_;
  MergeTable table_;
  size_t prefix_bytes_;
  std::string place_;
  uint32_t rank_ = 0;
  TokenId last_ = 0;  // the result of the last merge
  std::string joined_;
};

/// The model's "merges".
MergeTable read_merges(std::string_view text, const JsonObject& model, const Vocabulary& vocabulary,
                       size_t prefix_bytes);

}  // namespace trireme
