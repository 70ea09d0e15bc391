#pragma once
// SentencePiece's treatment of spaces: each becomes a visible character that begins the next word.

#include <string>

#include "text/pipeline/pre_tokenizer.h"

namespace trireme {

struct MetaspaceOptions {
  enum class Prepend { always, first, never };
  std::string replacement;  ///< one character
  Prepend prepend = Prepend::always;
  bool split = true;
};

/// From a pre-tokenizer or decoder element. Throws Error::data.
MetaspaceOptions read_metaspace(const JsonObject& element);

std::unique_ptr<PreTokenizer> make_metaspace(const JsonObject& element);

}  // namespace trireme
