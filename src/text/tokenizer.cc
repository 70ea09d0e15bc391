#include "text/tokenizer.h"

#include <algorithm>

#include "base/hash.h"

namespace trireme {

uint64_t Tokenizer::hash() const {
  const std::string& text = json();
  return xxh3(std::as_bytes(std::span(text.data(), text.size())));
}

Continuation::Continuation(const Tokenizer& tokenizer, std::span<const TokenId> prompt)
    : known_(tokenizer.decode(prompt)), stream_(tokenizer.stream()) {
  for (const TokenId id : prompt) (void)new_part(stream_->feed(id));
}

std::string Continuation::new_part(std::string text) {
  const std::string_view expected = std::string_view(known_).substr(at_);
  const auto differs = std::mismatch(text.begin(), text.end(), expected.begin(), expected.end()).first;
  const auto same = static_cast<size_t>(differs - text.begin());
  at_ += same;
  if (same < text.size()) known_.resize(at_);  // everything after this is new
  text.erase(0, same);
  return text;
}

}  // namespace trireme
