#pragma once
// The text that new ids add to a prompt, incrementally.

#include "text/tokenizer.h"

namespace trireme {

/// The joined results of feed() and finish() are decode(prompt and new ids) without its common prefix with
/// decode(prompt). So the first new word keeps the space before it, which decoding it alone would drop.
class Continuation {
 public:
  /// Borrows the tokenizer. Throws Error::data for an id without a token.
  Continuation(const Tokenizer& tokenizer, std::span<const TokenId> prompt);
  /// As in TextStream.
  std::string feed(TokenId id) { return new_part(stream_->feed(id)); }
  std::string finish() { return new_part(stream_->finish()); }

 private:
  std::string new_part(std::string text);

  std::string known_;  // decode(prompt)
  size_t at_ = 0;      // bytes of it that the text has repeated so far
  std::unique_ptr<TextStream> stream_;
};

}  // namespace trireme
