#pragma once
// YAML files as flat settings. Only what a configuration needs is read: nested maps of scalars. Memory is bounded by
// the file's size, which is limited; aliases are refused, so nothing can expand.

#include <string>
#include <vector>

#include "config/setting.h"

namespace trireme {

constexpr size_t kMaxConfigBytes = size_t{1} << 20;  // hand-written files are a few KiB

/// Text of a configuration file. Throws Error::config: unreadable, larger than kMaxConfigBytes, not UTF-8, has NUL.
std::string read_config_text(const std::string& path);

/// Settings of the file in the order written, origin.layer as given. Throws Error::config with path and line: not
/// valid YAML, a key that appears twice ('-' and '_' are the same), alias, tag, several documents, top level not a map.
/// Lists and missing values become settings with a problem, which the option may accept or refuse.
std::vector<Setting> read_yaml(const std::string& path, int layer);
std::vector<Setting> parse_yaml(const std::string& text, const std::string& path, int layer);

}  // namespace trireme
