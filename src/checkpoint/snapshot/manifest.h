#pragma once
// manifest.json of a checkpoint: its contents, and the place and checksum of each slice. Format:
// docs/checkpoint-format.md.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors/safetensors.h"
#include "checkpoint/snapshot/checkpoint.h"
#include "checkpoint/snapshot/slices.h"

namespace trireme {

struct StoredParameter {
  std::string name;
  Shape shape;                      ///< of the whole tensor, vocabulary without padding rows
  std::vector<std::string> states;  ///< optimizer states that are stored beside the value
};

struct StoredShard {
  std::string file;
  uint64_t bytes = 0;
  uint64_t header_bytes = 0, header_hash = 0;
};

/// Rows of a slice that share a checksum: 16 MiB, or one row where that is more. A reader of a part of a slice reads
/// little beyond it, and damage is found to within as much.
constexpr int64_t kPieceBytes = int64_t{16} << 20;
int64_t piece_rows(const Box& box);

struct StoredSlice {
  size_t parameter = 0;  ///< index in Manifest::parameters
  std::string part{kWeightPart};
  size_t shard = 0;
  Box box;                      ///< of the whole tensor; row-major in the file
  uint64_t begin = 0, end = 0;  ///< bytes in the shard file
  int64_t rows_per_hash = 0;
  std::vector<uint64_t> hashes;  ///< of the box's rows, in groups of this size

  bool is_weight() const { return part == kWeightPart; }
  size_t pieces() const { return hashes.size(); }
  Box piece(size_t index) const;  ///< the rows that a hash is of
};

struct Manifest {
  CheckpointFacts facts;  ///< tokenizer_json stays empty here: it is its own file
  bool has_tokenizer = false;
  uint64_t tokenizer_hash = 0;
  std::vector<StoredParameter> parameters;
  std::vector<StoredShard> shards;
  std::vector<StoredSlice> slices;
};

/// The text of manifest.json in the newest format, its own checksum included.
std::string write_manifest(const Manifest& manifest);

/// Parses any format version and checks everything that can be checked without the shards: the checksum of the text,
/// that every field is known, and that the slices cover every element of every part exactly once inside their shards.
/// Throws Error::data.
Manifest parse_manifest(std::string_view text, std::string_view where);
Manifest read_manifest(const std::string& step_folder);

/// Checks that every slice is inside its tensor and its shard; the slices of a part cover every element of it exactly
/// once, and no other slice exists. Throws Error::data naming the first fault.
void check_cover(const Manifest& manifest, std::string_view where);

// Before a checkpoint is written: its files with their sizes, its slices with their places.

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
