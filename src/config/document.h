#pragma once
// The options as documents: help, reference page, YAML of a configuration, JSON for manifests.

#include <string>
#include <string_view>

#include "base/json.h"
#include "config/load.h"

namespace trireme {

/// Every option with type, range, default and help, grouped: what `trireme train --help` prints.
std::string options_help();
/// docs/options.md: the options and the keys of each dialect.
std::string options_markdown();

/// The whole configuration as native YAML that loads to the same values; a comment says where each value that is not
/// the default came from; notes are at the top.
std::string to_yaml(const LoadedConfig& loaded);

/// {"model": {"layers": 12, ...}, ...}; config_from_json() of it gives an equal Config.
Json to_json(const Config& config);
/// Missing options keep their defaults. Throws Error::config naming `where` for unknown options and invalid values.
/// (With the name from_json, a literal as `where` would select nlohmann's own function for arrays.)
Config config_from_json(const Json& json, std::string_view where);

}  // namespace trireme
