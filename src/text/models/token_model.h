#pragma once
// A token model turns one piece of text, as the pre-tokenizer cut it, into ids.

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/models/vocabulary.h"

namespace trireme {

/// Working memory and caches of one thread; created by the model that uses it.
class ModelScratch {
 public:
  virtual ~ModelScratch() = default;
};

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  virtual std::unique_ptr<ModelScratch> make_scratch() const = 0;
  /// Appends the ids of a piece. Throws Error::data for text that the model cannot encode.
  virtual void encode(std::string_view piece, ModelScratch& scratch, std::vector<TokenId>& out) const = 0;
  virtual const Vocabulary& vocabulary() const = 0;
  /// Where each of the ids that encode() made of a piece ends in it; the first one begins at 0, the last one ends with
  /// the piece.
  std::vector<size_t> ends(std::string_view piece, std::span<const TokenId> ids) const;
  /// True if each character of a piece is encoded separately.
  virtual bool is_per_character() const { return false; }

 protected:
  /// What a token spells in a piece, at its beginning and at its end or not.
  virtual std::string spelled([[maybe_unused]] bool first, [[maybe_unused]] bool last, std::string_view token) const {
    return std::string(token);
  }
};

}  // namespace trireme
