#pragma once
// The command line of tasks on conversations (`trireme sft`, `trireme dpo`): short flags are names of native options.

#include <span>
#include <string>
#include <vector>

#include "cli/flags.h"
#include "config/load.h"

namespace trireme {

/// A flag and the native option that it names.
struct TuningFlag {
  const char *flag, *option, *value, *help;
};

/// What is particular to a command.
struct TuningCommand {
  const char *name, *purpose;
  const char *usage, *defaults;  ///< text of --help before the flags, and of defaults that differ
  std::span<const TuningFlag> flags;
  std::vector<std::string> (*default_flags)();  ///< for load_config()
};

struct TuningWords {
  LoadedConfig loaded;
  std::vector<std::string> files;  ///< of the configuration
};
/// Throws Error::usage, Error::config.
TuningWords read_tuning_words(const TuningCommand& command, std::vector<std::string> words);

/// What --help prints before the native options.
std::string tuning_help(const TuningCommand& command);
CommandShape tuning_shape(const TuningCommand& command);

extern const TuningCommand kSftCommand, kDpoCommand;

}  // namespace trireme
