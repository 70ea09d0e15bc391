#pragma once
// JSON of ours as text.

#include <string>

#include "base/json.h"

namespace trireme {

/// Json::dump(), which never fails: of text that is no UTF-8 the wrong bytes are replaced.
std::string dump_json(const Json& json, int indent = -1);

/// Json::dump(): throws Json::type_error for text that is no UTF-8. Like dump_json() compiled once, and not, as a
/// member of a template, with every file that calls it.
std::string dump_valid_json(const Json& json, int indent = -1);

/// The most keys and values that parse_json() takes: twice what the manifest of a checkpoint of 1,000 ranks has. They
/// take below 1 GB.
inline constexpr size_t kMostJsonValues = 8'000'000;

}  // namespace trireme
