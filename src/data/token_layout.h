#pragma once
// Identifies a token file without a sidecar and locates its ids.

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

struct TokenLayout {
  std::string format;   ///< as text
  uint64_t offset = 0;  ///< bytes before the first id
  uint64_t bytes = 0;   ///< of ids
};

/// Supports headerless 16-bit ids (nanoGPT), a one-dimensional .npy file of them, an llm.c shard for GPT-2. Throws
/// Error::data for anything else, naming it and what to do: other formats by their signatures, other numbers by their
/// statistics; also for truncated files. Warns if a file is mostly zeros.
TokenLayout identify_tokens(std::string_view file, const std::string& path);

/// For data.trust: the complete file is 16-bit ids.
TokenLayout trusted_tokens(std::string_view file);

}  // namespace trireme
