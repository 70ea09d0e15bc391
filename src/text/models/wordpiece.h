#pragma once
// WordPiece: cuts a word greedily into the longest tokens, with a prefix on those after the first; a word that cannot
// be cut is the unknown token. Source: Wu et al. 2016, section 4.1, as BERT uses it.

#include <string>

#include "text/models/pair_map.h"
#include "text/models/token_model.h"

namespace trireme {

struct WordPieceOptions {
  TokenId unknown = 0;
  std::string prefix = "##";
  size_t longest_word = 100;  ///< characters; longer words are unknown
};

class WordPieceModel final : public TokenModel {
 public:
  WordPieceModel(Vocabulary vocabulary, WordPieceOptions options);

  std::unique_ptr<ModelScratch> make_scratch() const override;
  void encode(std::string_view piece, ModelScratch& scratch, std::vector<TokenId>& out) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }

 protected:
  std::string spelled(bool first, bool, std::string_view token) const override {
    return std::string(!first && token.starts_with(options_.prefix) ? token.substr(options_.prefix.size()) : token);
  }

 private:
  struct Scratch;
  void encode_uncached(std::string_view piece, Scratch& scratch) const;
  void add_to_tree(TokenId root, std::string_view bytes, TokenId id);
  /// Bytes and id of the longest token that is a prefix of `text` and ends at a character boundary; 0: none.
  size_t longest_match(TokenId root, std::string_view text, TokenId& id) const;

  Vocabulary vocabulary_;
  WordPieceOptions options_;
  // The tokens byte by byte, so that a match takes one walk: (node, byte) -> node that follows.
  PairMap edges_;
  std::vector<TokenId> ends_;  // token that ends at a node, or kNoToken
};

/// WordLevel: a piece is a token or unknown.
class WordLevelModel final : public TokenModel {
 public:
  /// Without an unknown token a piece that is not a token throws Error::data.
  WordLevelModel(Vocabulary vocabulary, std::optional<TokenId> unknown)
      : vocabulary_(std::move(vocabulary)), unknown_(unknown) {}

  std::unique_ptr<ModelScratch> make_scratch() const override { return std::make_unique<ModelScratch>(); }
  void encode(std::string_view piece, ModelScratch& scratch, std::vector<TokenId>& out) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  Vocabulary vocabulary_;
  std::optional<TokenId> unknown_;
};

}  // namespace trireme
