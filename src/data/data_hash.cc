#include "data/data_hash.h"

#include <algorithm>

#include "base/hash.h"

namespace trireme {

uint64_t data_hash(std::span<const std::byte> bytes, const std::optional<TokenSidecar>& sidecar,
                   const BeforeBlock& before) {
  if (sidecar && sidecar->block_bytes == kSidecarBlockBytes)
    return xxh3(std::as_bytes(std::span(sidecar->block_hashes)));
  BlockHasher hasher;
  for (size_t at = 0; at < bytes.size(); at += kSidecarBlockBytes) {
    if (before) before();
    hasher.append(bytes.subspan(at, std::min<size_t>(kSidecarBlockBytes, bytes.size() - at)));
  }
  const std::vector<uint64_t> blocks = hasher.finish();
  return xxh3(std::as_bytes(std::span(blocks)));
}

uint64_t data_hash(const TokenDataset& dataset, const BeforeBlock& before) {
  return data_hash(dataset.tokens().bytes(), dataset.sidecar(), before);
}

}  // namespace trireme
