#pragma once
// Writes JSON as text.

#include <string>

#include "base/json.h"

namespace trireme {

/// Json::dump() that never fails: replaces bytes that are not UTF-8.
std::string dump_json(const Json& json, int indent = -1);

/// Json::dump(): throws Json::type_error for text that is not UTF-8. Like dump_json() compiled once, unlike a member of
/// a template, which is compiled with every file that calls it.
std::string dump_valid_json(const Json& json, int indent = -1);

/// The most keys and values that parse_json() reads: twice those of the manifest of a checkpoint of 1,000 ranks. They
/// need less than 1 GB.
inline constexpr size_t kMostJsonValues = 8'000'000;

}  // namespace trireme
