#pragma once
#include <cstddef>
#include <optional>
#include <span>

#include "data/sidecar.h"
#include "data/token_dataset.h"

namespace trireme {

/// Identity of a token file: XXH3-64 over the XXH3-64 of its blocks of kSidecarBlockBytes, in order, little-endian.
/// Taken from the sidecar if there is one, otherwise the file is read once.
uint64_t data_hash(std::span<const std::byte> bytes, const std::optional<TokenSidecar>& sidecar,
                   const BeforeBlock& before = {});
uint64_t data_hash(const TokenDataset& dataset, const BeforeBlock& before = {});

}  // namespace trireme
