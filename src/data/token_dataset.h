#pragma once
// Token files opened for training: headerless little-endian uint16 (nanoGPT), memory mapped, checked at open against
// the sidecar JSON.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/file.h"

namespace trireme {

/// What `trireme prepare` wrote beside FILE.bin, as FILE.bin.json. A bare .bin has none.
struct TokenSidecar {
  uint64_t tokens = 0, documents = 0, vocabulary = 0;
  std::string tokenizer_hash;  ///< hex64 of Tokenizer::hash(), empty if unknown
};

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

/// Reads FILE.bin.json if it is there.
std::optional<TokenSidecar> read_sidecar(const std::string& bin_path);

}  // namespace trireme
