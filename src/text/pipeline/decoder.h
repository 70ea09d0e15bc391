#pragma once
// Decoders turn tokens back into text, token by token. Built from the "decoder" element of tokenizer.json.

#include <memory>
#include <string_view>

#include "text/json_node.h"
#include "text/pipeline/text_limit.h"

namespace trireme {

/// Receives the tokens of a text in order, each in any number of parts.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  virtual void part(std::string_view text) = 0;
  virtual void end_token() = 0;
  virtual void end() = 0;  ///< no token follows
};

/// Bytes of the tokens so far; the length of the result is compared with them.
struct GivenBytes {
  size_t bytes = 0;
  std::string_view where;  ///< names the file in errors
  TextLimit limit() const { return TextLimit(bytes, where); }
};

class Decoder {
 public:
  virtual ~Decoder() = default;
  /// Rewrites the tokens of one text. Passes final text to `next` at once, the rest at end() at the latest; joined
  /// without a separator it is the text. Borrows this decoder, `next` and `given`. Its calls throw Error::data if the
  /// text would exceed the limit.
  virtual std::unique_ptr<TokenSink> stage(TokenSink& next, const GivenBytes& given) const = 0;
  /// True if the result is the concatenation of each token's result, which can then be computed once per token.
  virtual bool is_per_token() const { return false; }
  /// True if several tokens may become one for later decoders.
  virtual bool joins() const { return false; }
  /// True if a token's text may be longer than the token; a token can then exceed the limit before any text exists.
  virtual bool may_grow() const { return true; }
};

/// Throws Error::data naming an unsupported element.
std::unique_ptr<Decoder> make_decoder(const JsonObject& element);
/// For files without a decoder: joins tokens with spaces.
std::unique_ptr<Decoder> make_spaced_decoder();

}  // namespace trireme
