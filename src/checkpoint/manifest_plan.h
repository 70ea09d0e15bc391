#pragma once
// What a checkpoint will consist of, known before a byte of it is: files with their sizes, slices with their places.

#include <cstdint>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"

namespace trireme {

/// Tensors of a shard, one for each slice; all of them F32.
std::vector<SafetensorsEntry> shard_entries(const ParameterTable& table, const std::vector<Slice>& slices);
SafetensorsMetadata shard_metadata();

/// The manifest of a checkpoint that so many ranks write, with zeros for the checksums of shards and slices. A rank's
/// slices stand together, in the order of plan_slices().
Manifest plan_manifest(const ParameterTable& table, const CheckpointFacts& facts, int ranks, bool moments);

/// Bytes of each file: the ranks' shards, then manifest.json and, if there is one, tokenizer.json.
std::vector<uint64_t> file_sizes(const Manifest& planned);

}  // namespace trireme
