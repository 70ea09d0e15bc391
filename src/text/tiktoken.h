#pragma once
// tiktoken rank files: a token in base64 and its rank on each line. The rank is the id, and of two neighbours that
// together are a token the pair of lowest rank is merged first.

#include <string>

namespace trireme {

/// True if the text looks like such a file.
bool is_tiktoken(std::string_view text);

/// The file as tokenizer.json. pattern: see TokenizerLoadOptions; empty: by the file's name. Throws Error::data,
/// Error::usage when the pattern is not known.
std::string tiktoken_to_json(const std::string& text, const std::string& path, const std::string& pattern);

}  // namespace trireme
