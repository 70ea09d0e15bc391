#pragma once
// Token files opened for training: little-endian ids of 16 or 32 bits, memory mapped, checked at open against the
// sidecar JSON, which says their width. The content of files without a sidecar is checked first.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/file.h"
#include "data/block_check.h"
#include "data/sidecar.h"
#include "data/token_ids.h"

namespace trireme {

// Identifies a token file without a sidecar and locates its ids.

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

class TokenDataset {
 public:
  /// Throws Error::io, Error::data (empty, incomplete ids, sidecar and size or vocabulary disagree, a block's XXH3, an
  /// id >= vocabulary, 16-bit ids of a larger vocabulary). vocabulary 0: the sidecar's; if neither is known, ids must
  /// be below 2^31. verify: every block, otherwise 16 blocks from the first to the last; the sidecar gives the block
  /// size, 4 MiB without one. Also throws Error::data for files that identify_tokens() refuses. trust: without a
  /// sidecar the complete file is 16-bit ids, whatever it looks like.
  TokenDataset(const std::string& path, uint64_t vocabulary, bool verify, const BeforeBlock& before = {},
               bool trust = false);

  uint64_t size() const { return tokens_.size(); }
  TokenIds tokens() const { return tokens_; }
  const std::optional<TokenSidecar>& sidecar() const { return sidecar_; }
  const std::string& path() const { return file_.path(); }
  const std::string& format() const { return format_; }  ///< as text
  uint64_t vocabulary() const { return vocabulary_; }    ///< ids are below it; 0: unknown

 private:
  MappedFile file_;
  TokenIds tokens_;
  std::optional<TokenSidecar> sidecar_;
  std::string format_;
  uint64_t vocabulary_ = 0;
};

/// Identity of a token file: XXH3-64 over the XXH3-64 of its blocks of kSidecarBlockBytes, in order, little-endian.
/// Taken from the sidecar if there is one, otherwise the file is read once.
uint64_t data_hash(std::span<const std::byte> bytes, const std::optional<TokenSidecar>& sidecar,
                   const BeforeBlock& before = {});
uint64_t data_hash(const TokenDataset& dataset, const BeforeBlock& before = {});

}  // namespace trireme
