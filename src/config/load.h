#pragma once
// From files and flags to one Config: read, recognise the dialect, translate, layer, check.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "config/setting.h"

namespace trireme {

/// By the name of every option that a file, a flag or a dialect set.
using OptionOrigins = std::map<std::string, Origin>;
/// Whether the option was set by a file or a flag (not by a dialect's defaults).
bool given(const OptionOrigins& origins, std::string_view option);
/// "optim.clip (configs/a.yaml:3)": the name of the option in an error.
std::string where(const OptionOrigins& origins, std::string_view option, const OptionNames& names);

struct LoadedConfig {
  Config config;
  OptionOrigins origins;
  std::vector<std::string> notes;    ///< one line each: keys that have no effect here, and assumptions of a dialect
  std::vector<std::string> details;  ///< further notes, for `--verbose`
  std::string dialect = "native";

  /// Sets an option that follows from others: its origin, in words, is not that of a file or a flag.
  void derive(std::string_view option, const Value& value, const std::string& origin);
  bool given(std::string_view option) const { return trireme::given(origins, option); }
  std::string where(std::string_view option) const { return trireme::where(origins, option, config.names); }
};

/// The parts of a command line: files, flags with their values as raw words, and `--dialect`.
struct ConfigWords {
  std::vector<std::string> files, flags;
  std::optional<std::string> dialect;
  bool verbose = false;
};
/// A word that starts with "--" is a flag and takes the next word as its value, unless it has '=' or names a
/// true/false option and the next word is neither. Other words are files; `key=value` without dashes is passed on as a
/// flag for dialects that write flags like this. `--default NAME=VALUE` sets an option that neither a file nor a flag
/// sets. `-d FOLDER` (--conf-dir) is the folder of the files; `.yml` may be
/// omitted. Spellings of other programs are accepted as config/foreign_options.h says. Throws Error::usage,
/// Error::config.
/// problems: of words that the caller has taken away; they are reported with those found here.
ConfigWords split_words(std::vector<std::string> words, std::vector<std::string> problems = {});

/// Later files win over earlier ones, flags over files. `dialect` empty: recognised from the files. Throws
/// Error::config naming file, line, key and the nearest known key. names: Config::names.
LoadedConfig load_config(const std::vector<std::string>& files, const std::vector<std::string>& flags,
                         const std::optional<std::string>& dialect = std::nullopt, OptionNames names = {});

/// Reads files that another program stored with its checkpoint: from YAML in a dialect only the given keys, which
/// describe what was trained (keys and groups with blanks between); folders, logging and ranks are ignored. If a key
/// appears twice, the later one wins. No further validation. Throws Error::config.
LoadedConfig load_saved_config(const std::vector<std::string>& files, const std::string& dialect,
                               std::string_view keys);

}  // namespace trireme
