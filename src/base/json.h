#pragma once
// JSON of files from outside: strict (duplicate keys, depth, trailing bytes are errors) and bounded. Corpora use
// simdjson instead.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace trireme {

using Json = nlohmann::ordered_json;  // keeps the order of a written file stable

/// Parses text; `where` names the source in errors. Throws Error::data with line and column; duplicate keys and a
/// nesting over 64 are errors.
Json parse_json(std::string_view text, std::string_view where);

/// Reads and parses a file of at most `max_bytes`. Throws Error::io or Error::data.
Json read_json(const std::string& path, size_t max_bytes = size_t{64} << 20);

}  // namespace trireme
