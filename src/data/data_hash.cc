#include "data/data_hash.h"

#include "base/hash.h"

namespace trireme {

uint64_t data_hash(std::span<const std::byte> bytes, const std::optional<TokenSidecar>& sidecar) {
  if (sidecar && sidecar->block_bytes == kSidecarBlockBytes)
    return xxh3(std::as_bytes(std::span(sidecar->block_hashes)));
  BlockHasher hasher;
  hasher.append(bytes);
  const std::vector<uint64_t> blocks = hasher.finish();
  return xxh3(std::as_bytes(std::span(blocks)));
}

uint64_t data_hash(const TokenDataset& dataset) {
  return data_hash(std::as_bytes(dataset.tokens()), dataset.sidecar());
}

}  // namespace trireme
