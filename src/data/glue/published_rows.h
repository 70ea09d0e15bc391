#pragma once
// Numbers of rows in the published files of GLUE.

#include <cstdint>
#include <optional>
#include <string_view>

#include "data/glue/reader.h"

namespace trireme {

/// For a set by its name ("mrpc", "mnli-mm"), without rows that lack a field; empty if the file does not exist. Source:
/// the tables of Wang et al. 2018 and of the files that the authors distribute.
std::optional<int64_t> published_rows(std::string_view set, GlueSplit split);

}  // namespace trireme
