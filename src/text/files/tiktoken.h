#pragma once
// tiktoken rank files: a token in base64 and its rank on each line. The rank is the id; of adjacent pairs that form a
// token the one of lowest rank is merged first.

#include <memory>
#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace trireme {

/// True if the text looks like a rank file.
bool is_tiktoken(std::string_view text);

/// pattern: see TokenizerLoadOptions; empty: by the file's name. Throws Error::data, Error::usage if the pattern is
/// unknown.
std::unique_ptr<Tokenizer> load_tiktoken(std::string_view text, const std::string& path, const std::string& pattern);

}  // namespace trireme
