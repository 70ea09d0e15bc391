#include "text/tokenizer.h"

#include "base/hash.h"

namespace trireme {

uint64_t Tokenizer::hash() const {
  const std::string& text = json();
  return xxh3(std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace trireme
