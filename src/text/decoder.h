#pragma once
// Decoders turn tokens back into text. Built from the "decoder" element of tokenizer.json.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/json_node.h"
#include "text/text_limit.h"

namespace trireme {

class Decoder {
 public:
  virtual ~Decoder() = default;
  /// Rewrites the tokens; joined without a separator they are the text.
  /// Throws Error::data when a token would grow beyond the limit.
  virtual void apply(std::vector<std::string>& tokens, const TextLimit& limit) const = 0;
  /// True if the result is each token's own result, one after the other: it can then be computed once per token.
  virtual bool is_per_token() const { return false; }
  /// True if a token's text may be longer than the token: whether one is too long is then known before any text is.
  virtual bool may_grow() const { return true; }
  /// Appends the text of one token, of a decoder that works token by token.
  virtual void append(std::string_view token, const TextLimit& limit, std::string& out) const;
};

/// Throws Error::data, naming it, for an element that is not implemented.
std::unique_ptr<Decoder> make_decoder(const JsonObject& element);

}  // namespace trireme
