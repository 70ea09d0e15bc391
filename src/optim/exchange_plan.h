#pragma once
// Which elements travel together: pure arithmetic, the same on every rank.

#include <cstdint>
#include <vector>

#include "model/parameter_table.h"

namespace trireme {

/// One chunk: part `index` of every rank's slice of one bucket. Owner r's piece is [begin(r), begin(r) + length(r)).
struct ExchangeChunk {
  int64_t bucket_begin = 0, bucket_end = 0;
  int64_t slice = 0;  ///< elements of a slice; the last ones of a bucket may be shorter or empty
  int64_t first = 0;  ///< of this chunk inside each slice
  int64_t limit = 0;  ///< elements of a chunk at most

  int64_t begin(int owner) const;
  int64_t length(int owner) const;
};

/// Chunks of the range in the order in which they start. Buckets have `bucket` elements, the last one fewer.
std::vector<ExchangeChunk> plan_exchange(ParameterRange range, int64_t bucket, int64_t chunk_limit, int ranks);

}  // namespace trireme
