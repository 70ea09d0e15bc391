#pragma once
// Where the ids of a token file without a sidecar lie, once it is known what the file is.

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

struct TokenLayout {
  std::string format;   ///< in words
  uint64_t offset = 0;  ///< bytes before the first id
  uint64_t bytes = 0;   ///< of ids
};

/// Reads as they are: headerless 16-bit ids (nanoGPT), a .npy file of one dimension of them, a shard of llm.c for
/// GPT-2. Throws Error::data for what is something else, naming it and what to do: other formats by their signatures,
/// other numbers by the shares of what they hold; so does what is cut off. A file that is mostly zeros gives a warning.
TokenLayout identify_tokens(std::string_view file, const std::string& path);

/// For data.trust: all of the file is 16-bit ids.
TokenLayout trusted_tokens(std::string_view file);

}  // namespace trireme
