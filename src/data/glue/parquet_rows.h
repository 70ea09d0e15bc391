#pragma once
// Rows of GLUE as the Hugging Face hub has them: Parquet files with columns of its own names.

#include <optional>
#include <string>

#include "data/glue/reader.h"

namespace trireme {

/// The rows of SPLIT-00000-of-00001.parquet and the like (also SPLIT.parquet, SPLIT/*.parquet) in the folder of a task;
/// nothing where there are none. `split`: "train", "validation_matched", ... Labels are classes by number, or the
/// number to predict; `labelled` false: they are not looked at. Throws Error::data with file and row.
std::optional<GlueSet> read_parquet_rows(const GlueTask& task, const std::string& set, const std::string& folder,
                                         const std::string& split, bool labelled);

}  // namespace trireme
