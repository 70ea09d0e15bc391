#pragma once
// How many rows the published files of GLUE have.

#include <cstdint>
#include <optional>
#include <string_view>

#include "data/glue/reader.h"

namespace trireme {

/// Of a set by its name ("mrpc", "mnli-mm"), rows that lack a field left out; nothing where there is no such file.
/// Source: the tables of Wang et al. 2018 and of the files that the authors distribute.
std::optional<int64_t> published_rows(std::string_view set, GlueSplit split);

}  // namespace trireme
