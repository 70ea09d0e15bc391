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
  uint64_t width = 2;   ///< bytes of an id: 2 or 4
};

/// Supports headerless 16-bit ids (nanoGPT), a one-dimensional .npy file of 16-bit or 32-bit ids, an llm.c shard for
/// GPT-2 or Llama 3. Throws Error::data for anything else, naming it and what to do: other formats by their signatures,
/// other numbers by their statistics; also for truncated files. Warns if a file is mostly zeros.
TokenLayout identify_tokens(std::string_view file, const std::string& path);

/// The complete file is ids of `width` bytes: for data.trust (2) and for files with a sidecar.
TokenLayout headerless_tokens(std::string_view file, uint64_t width);

}  // namespace trireme
