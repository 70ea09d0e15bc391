#pragma once
// From files and flags to one Config: read, recognise the dialect, translate, layer, check.

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "config/setting.h"

namespace trireme {

struct LoadedConfig {
  Config config;
  std::map<std::string, Origin> origins;  ///< of every option that a file, a flag or a dialect set, by option name
  std::vector<std::string> notes;         ///< one line each: keys that have no effect here, and what a dialect assumed
  std::vector<std::string> details;       ///< further notes, for `--verbose`
  std::string dialect = "native";

  /// Whether the option was set by a file or a flag (not by a dialect's defaults).
  bool given(std::string_view option) const;
  /// "optim.clip (configs/a.yaml:3)": how an error names the option.
  std::string where(std::string_view option) const;
};

/// Command words taken apart: files, then flags with their values as raw words, and `--dialect`.
struct ConfigWords {
  std::vector<std::string> files, flags;
  std::optional<std::string> dialect;
  bool verbose = false;
};
/// A word that starts with "--" is a flag and takes the next word as its value, unless it has '=' or names a
/// true/false option and the next word is neither. Other words are files; `key=value` without dashes is passed on as a
/// flag for dialects that write it so. `-d FOLDER` (--conf-dir) is where the files lie; `.yml` may be left out of a
/// name. Other programs' spellings are taken as config/foreign_options.h says. Throws Error::usage, Error::config.
ConfigWords split_words(std::vector<std::string> words);

/// Later files win over earlier ones, flags over files. `dialect` empty: recognised by the files. Throws Error::config
/// naming file, line, key and the nearest known key.
LoadedConfig load_config(const std::vector<std::string>& files, const std::vector<std::string>& flags,
                         const std::optional<std::string>& dialect = std::nullopt);

/// What files say that another program has kept with its checkpoint: of YAML in a dialect the given keys alone, those
/// that say what was trained; where the run was, what it logged and on which ranks is left out. Of a key that stands
/// twice the later counts. Not validated beyond that. Throws Error::config.
LoadedConfig load_saved_config(const std::vector<std::string>& files, const std::string& dialect,
                               std::span<const char* const> keys);

}  // namespace trireme
