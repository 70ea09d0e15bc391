#pragma once
// GLUE rows from the Hugging Face hub: Parquet files with the hub's column names.

#include <optional>
#include <string>

#include "data/glue/reader.h"

namespace trireme {

/// The rows of SPLIT-00000-of-00001.parquet and similar files (also SPLIT.parquet, SPLIT/*.parquet) in the folder of a
/// task; nothing without such files. `split`: "train", "validation_matched", ... Labels are classes by number, or the
/// number to predict; `labelled` false: ignored. Throws Error::data with file and row.
std::optional<GlueSet> read_parquet_rows(const GlueTask& task, const std::string& set, const std::string& folder,
                                         const std::string& split, bool labelled);

}  // namespace trireme
