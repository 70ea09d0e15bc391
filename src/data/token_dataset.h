#pragma once
// Token files opened for training: little-endian ids of 16 or 32 bits, memory mapped, checked at open against the
// sidecar JSON, which says their width. The content of files without a sidecar is checked first (data/token_layout.h).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/file.h"
#include "data/block_check.h"
#include "data/sidecar.h"
#include "data/token_ids.h"

namespace trireme {

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
