#pragma once
// The contents of a checkpoint before it is written: files with their sizes, slices with their places.

#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/safetensors/safetensors.h"
#include "checkpoint/snapshot/manifest.h"

namespace trireme {

/// Tensors of a shard, one for each slice; all of them F32. `whole`: table of the whole model.
std::vector<SafetensorsEntry> shard_entries(const ParameterTable& whole, const std::vector<Slice>& slices);
SafetensorsMetadata shard_metadata();

/// The manifest of a checkpoint of which each rank writes its slices (plan_slices()), with zeros for the checksums of
/// shards and slices. The slices of a rank are consecutive, in its order. `states`: optimizer states are among them.
Manifest plan_manifest(const ParameterTable& whole, std::span<const std::vector<Slice>> slices_of_ranks,
                       const CheckpointFacts& facts, bool states);

/// Bytes of each file: the ranks' shards, then manifest.json and, if there is one, tokenizer.json.
std::vector<uint64_t> file_sizes(const Manifest& planned);

}  // namespace trireme
