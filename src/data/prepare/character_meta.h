#pragma once
#include <string>

#include "text/tokenizer.h"

namespace trireme {

/// The content of nanoGPT's meta.pkl for a character vocabulary, as JSON: vocab_size, itos (from "0", "1", ...), stoi.
std::string character_meta_json(const Tokenizer& tokenizer);

}  // namespace trireme
