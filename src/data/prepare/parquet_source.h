#pragma once
// Columns of a Parquet file as lines of JSON, one object per row, so that later stages need no special case.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/prepare/byte_source.h"

namespace trireme {

/// Strings of `columns`; nulls are omitted from their row. Throws Error::io, Error::data (damaged; a column that is
/// missing or has no strings; a text longer than `most_bytes`; an unsupported encoding or compression, by its name).
std::unique_ptr<ByteSource> open_parquet(const std::string& path, const std::vector<std::string>& columns,
                                         uint64_t most_bytes = UINT64_MAX);

}  // namespace trireme
