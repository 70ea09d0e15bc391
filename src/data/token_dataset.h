#pragma once
// Token files opened for training: headerless little-endian uint16 (nanoGPT), memory mapped, checked at open against
// the sidecar JSON.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/file.h"
#include "data/sidecar.h"

namespace trireme {

class TokenDataset {
 public:
  /// Throws Error::io, Error::data (odd length, empty, sidecar and size disagree, id >= vocabulary in the sample).
  /// vocabulary 0: not checked. verify: every block's XXH3 and every id, else a sample of blocks.
  TokenDataset(const std::string& path, uint64_t vocabulary, bool verify);

  uint64_t size() const { return tokens_.size(); }
  std::span<const uint16_t> tokens() const { return tokens_; }
  const std::optional<TokenSidecar>& sidecar() const { return sidecar_; }
  const std::string& path() const { return file_.path(); }

 private:
  MappedFile file_;
  std::span<const uint16_t> tokens_;
  std::optional<TokenSidecar> sidecar_;
};

}  // namespace trireme
