#pragma once
// Shards of a checkpoint in a folder, checked against its manifest.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/snapshot/manifest.h"

namespace trireme {

/// Maps a shard after checking its size and the checksum of its header. Throws Error::data.
MappedFile open_shard(const std::string& folder, const StoredShard& shard);

/// Where a piece of a slice is in its shard's file.
struct PiecePlace {
  uint64_t begin = 0, bytes = 0;
};
PiecePlace place_of_piece(const StoredSlice& slice, size_t piece);

/// That these are the bytes of the piece. `path` names the file in the error. Throws Error::data.
void check_piece(std::span<const std::byte> bytes, const std::string& path, const Manifest& manifest,
                 const StoredSlice& slice, size_t piece);
/// The values of a piece; slices begin at multiples of 4 in their files.
std::span<const float> floats_of(std::span<const std::byte> piece);

/// The bytes of one piece of a slice, checked.
std::span<const std::byte> checked_piece(const MappedFile& file, const Manifest& manifest, const StoredSlice& slice,
                                         size_t piece);

/// Reads every byte of a shard; one line per fault. weights += its part of the weights' hash (optim/parameter_hash.h).
std::vector<std::string> verify_shard(const std::string& folder, const Manifest& manifest, size_t shard,
                                      uint64_t& weights);

/// tokenizer.json of the manifest; empty if it has none. Throws Error::data.
std::string read_tokenizer(const std::string& folder, const Manifest& manifest);

}  // namespace trireme
