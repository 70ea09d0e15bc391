#pragma once
// Decoders turn tokens back into text, one token after the other. Built from the "decoder" element of tokenizer.json.

#include <memory>
#include <string_view>

#include "text/json_node.h"
#include "text/text_limit.h"

namespace trireme {

/// Takes the tokens of a text in order, the text of each in any number of parts.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  virtual void part(std::string_view text) = 0;
  virtual void end_token() = 0;
  virtual void end() = 0;  ///< no token follows
};

/// Bytes of the tokens that were given so far, against which what is made of them is measured.
struct GivenBytes {
  size_t bytes = 0;
  std::string_view where;  ///< names the file in errors
  TextLimit limit() const { return TextLimit(bytes, where); }
};

class Decoder {
 public:
  virtual ~Decoder() = default;
  /// Rewrites the tokens of one text. What no later token can change is handed to `next` at once, the rest at the
  /// latest by end(); joined without a separator, that is the text. Borrows this decoder, `next` and `given`. Its calls
  /// throw Error::data when the text would grow beyond the limit.
  virtual std::unique_ptr<TokenSink> stage(TokenSink& next, const GivenBytes& given) const = 0;
  /// True if the result is each token's own result, one after the other: it can then be computed once per token.
  virtual bool is_per_token() const { return false; }
  /// True if several tokens may become one, which decoders after this one then see as such.
  virtual bool joins() const { return false; }
  /// True if a token's text may be longer than the token: whether one is too long is then known before any text is.
  virtual bool may_grow() const { return true; }
};

/// Throws Error::data, naming it, for an element that is not implemented.
std::unique_ptr<Decoder> make_decoder(const JsonObject& element);
/// What files without a decoder mean: tokens with a space between.
std::unique_ptr<Decoder> make_spaced_decoder();

}  // namespace trireme
