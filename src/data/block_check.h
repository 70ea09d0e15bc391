#pragma once
// Checks the ids of a token file block by block: against the checksums of its sidecar and against a vocabulary.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "data/sidecar.h"

namespace trireme {

/// Called before each block; an exception from it ends the reading. Empty: not called.
using BeforeBlock = std::function<void()>;

struct BlockCheck {
  uint64_t width = 2;       ///< bytes of an id: 2 or 4
  uint64_t vocabulary = 0;  ///< ids of the model; 0: the sidecar's, unchecked without a sidecar
  bool trust = false;       ///< 16-bit ids of a vocabulary that needs 32 bits are right
  bool all = false;         ///< every block, otherwise 16 from the first to the last
  BeforeBlock before = {};
};

/// `bytes` is the content of the file at `path`, complete ids only. The sidecar gives the block size, 4 MiB without
/// one. Returns the number of blocks read. Throws Error::data naming the first wrong block: another vocabulary than the
/// model's, a wrong checksum, an id outside the vocabulary; also 16-bit ids without a sidecar for a vocabulary that
/// needs 32 bits. Without any vocabulary, ids of 32 bits must be below 2^31.
uint64_t check_blocks(const std::string& path, std::span<const std::byte> bytes,
                      const std::optional<TokenSidecar>& sidecar, const BlockCheck& check);

}  // namespace trireme
