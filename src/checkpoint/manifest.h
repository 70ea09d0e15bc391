#pragma once
// manifest.json of a checkpoint: what it holds, where each slice lies and its checksum. Format:
// docs/checkpoint-format.md.

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/slices.h"

namespace trireme {

struct StoredParameter {
  std::string name;
  std::vector<int64_t> shape;
  int64_t width() const;  ///< elements per row
};

struct StoredShard {
  std::string file;
  uint64_t bytes = 0;
  uint64_t header_bytes = 0, header_hash = 0;
};

struct StoredSlice {
  size_t parameter = 0;  ///< index in Manifest::parameters
  Part part = Part::weight;
  size_t shard = 0;
  int64_t first_row = 0, rows = 0;
  uint64_t begin = 0, end = 0;  ///< bytes in the shard file
  uint64_t hash = 0;
};

struct Manifest {
  CheckpointFacts facts;  ///< tokenizer_json stays empty here: it is a file of its own
  bool moments = false;
  bool has_tokenizer = false;
  uint64_t tokenizer_hash = 0;
  std::vector<StoredParameter> parameters;
  std::vector<StoredShard> shards;
  std::vector<StoredSlice> slices;
};

/// The text of manifest.json, its own checksum included.
std::string write_manifest(const Manifest& manifest);

/// Parses and checks everything that can be checked without the shards: the checksum of the text, and that the slices
/// cover every row of every part exactly once inside their shards. Throws Error::data.
Manifest parse_manifest(std::string_view text, std::string_view where);
Manifest read_manifest(const std::string& step_folder);

}  // namespace trireme
