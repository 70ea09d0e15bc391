#pragma once
// Columns of a Parquet file as lines of JSON, one object per row: what comes after it need not know where they are
// from.

#include <memory>
#include <string>
#include <vector>

#include "data/prepare/byte_source.h"

namespace trireme {

/// Strings of `columns`; a null is left out of its row. Throws Error::io, Error::data (damaged; a column that is not
/// there or holds no strings; an encoding or compression that is not read, by its name).
std::unique_ptr<ByteSource> open_parquet(const std::string& path, const std::vector<std::string>& columns);

}  // namespace trireme
