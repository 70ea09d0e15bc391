#pragma once
// Token files opened for training: little-endian uint16, memory mapped, checked at open against the sidecar JSON. What
// has no sidecar is looked at before it is believed (data/token_layout.h).

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/file.h"
#include "data/block_check.h"
#include "data/sidecar.h"

namespace trireme {

class TokenDataset {
 public:
  /// Throws Error::io, Error::data (empty, odd length, sidecar and size or vocabulary disagree, a block's XXH3, an id
  /// >= vocabulary). vocabulary 0: the sidecar's; ids are not checked where neither is known. verify: every block, else
  /// 16 blocks from the first to the last; a block is what the sidecar says, 4 MiB without one. Error::data, too, for
  /// what identify_tokens() refuses. trust: without a sidecar all of it is ids, whatever it looks like.
  TokenDataset(const std::string& path, uint64_t vocabulary, bool verify, const BeforeBlock& before = {},
               bool trust = false);

  uint64_t size() const { return tokens_.size(); }
  std::span<const uint16_t> tokens() const { return tokens_; }
  const std::optional<TokenSidecar>& sidecar() const { return sidecar_; }
  const std::string& path() const { return file_.path(); }
  const std::string& format() const { return format_; }  ///< in words
  uint64_t vocabulary() const { return vocabulary_; }    ///< ids are below it; 0: not known

 private:
  MappedFile file_;
  std::span<const uint16_t> tokens_;
  std::optional<TokenSidecar> sidecar_;
  std::string format_;
  uint64_t vocabulary_ = 0;
};

}  // namespace trireme
