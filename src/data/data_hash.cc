#include "data/data_hash.h"

#include <algorithm>

#include "base/hash.h"

namespace trireme {

uint64_t data_hash(const TokenDataset& dataset) {
  const auto& sidecar = dataset.sidecar();
  if (sidecar && sidecar->block_bytes == kSidecarBlockBytes)
    return xxh3(std::as_bytes(std::span(sidecar->block_hashes)));
  BlockHasher hasher;
  hasher.append(std::as_bytes(dataset.tokens()));
  const std::vector<uint64_t> blocks = hasher.finish();
  return xxh3(std::as_bytes(std::span(blocks)));
}

}  // namespace trireme
