#pragma once
// SentencePiece's way with spaces: each becomes a visible character that begins the word after it.

#include <string>

#include "text/pre_tokenizer.h"

namespace trireme {

struct MetaspaceOptions {
  enum class Prepend { always, first, never };
  std::string replacement;  ///< one character
  Prepend prepend = Prepend::always;
  bool split = true;
};

/// Of a pre-tokenizer or decoder element. Throws Error::data.
MetaspaceOptions read_metaspace(const JsonObject& element);

std::unique_ptr<PreTokenizer> make_metaspace(const JsonObject& element);

}  // namespace trireme
