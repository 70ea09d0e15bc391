#pragma once
// WordLevel: a piece is a token or unknown.

#include "text/models/token_model.h"

namespace trireme {

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
