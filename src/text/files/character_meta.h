#pragma once
// meta.pkl: a character vocabulary of nanoGPT's data/shakespeare_char/prepare.py, {vocab_size, itos, stoi}.

#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace trireme {

constexpr const char* kCharacterMeta = "meta.pkl";

/// The tokenizer of a meta.pkl, which is read as data, not executed. Throws Error::io, Error::data: other contents, ids
/// with gaps, or texts that are not single characters.
std::unique_ptr<Tokenizer> read_character_meta(const std::string& path);

}  // namespace trireme
