#pragma once
// The text that new ids add to a prompt, while they come.

#include "text/tokenizer.h"

namespace trireme {

/// All that feed() and finish() return, joined, is decode(prompt and new ids) without what it has in common with
/// decode(prompt) at its beginning. So the first new word keeps the space before it, which decoding it alone would
/// drop.
class Continuation {
 public:
  /// Borrows the tokenizer. Throws Error::data for an id that has no token.
  Continuation(const Tokenizer& tokenizer, std::span<const TokenId> prompt);
  /// As TextStream's.
  std::string feed(TokenId id) { return new_part(stream_->feed(id)); }
  std::string finish() { return new_part(stream_->finish()); }

 private:
  std::string new_part(std::string text);

  std::string known_;  // decode(prompt)
  size_t at_ = 0;      // bytes of it that the text has so far
  std::unique_ptr<TextStream> stream_;
};

}  // namespace trireme
