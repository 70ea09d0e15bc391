#pragma once
// The tokenizer of a model as keys of a GGUF file.

#include <string>

#include "checkpoint/gguf/file.h"

namespace trireme {

/// Keys "tokenizer.*" of a model with so many ids. tokenizer_json may be empty: the file has no tokenizer then.
/// generation: read_generation_files(), which says what begins and ends a text, and the chat template. pre: the name of
/// llama.cpp's pre-tokenizer; empty: by the tokenizer's. Throws Error::data, Error::config for a tokenizer that
/// llama.cpp does not have.
void add_vocabulary(const std::string& tokenizer_json, const std::string& generation, int64_t vocabulary,
                    const std::string& pre, GgufMetadata& metadata);

}  // namespace trireme
