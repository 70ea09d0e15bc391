#pragma once
// The command line of tasks on conversations (`trireme sft`, `trireme dpo`): short flags are names of native options.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cli/flags.h"
#include "config/load.h"
#include "train/glue/options.h"
#include "train/start/recipe.h"

namespace trireme {

/// What is particular to a command.
struct TuningCommand {
  const char *name, *purpose;
  const char* dialect;           ///< of the same script of TRL
  const char *notes, *defaults;  ///< text of --help, also about defaults that differ
  std::span<const OptionFlag> flags;
  std::vector<std::string> (*default_flags)();  ///< for load_config()
  std::unique_ptr<Recipe> (*recipe)(LoadedConfig loaded);
};

struct TuningWords {
  LoadedConfig loaded;
  std::vector<std::string> files;  ///< of the configuration
};
/// Throws Error::usage, Error::config.
TuningWords read_tuning_words(const TuningCommand& command, std::vector<std::string> words);

/// Prints the help, or trains. Returns the exit code.
int run_tuning(const TuningCommand& command, CommandLine line);

extern const TuningCommand kSftCommand, kDpoCommand;

// run_glue's arguments and their meaning here.

/// Arguments as run_glue takes them ('-' equals '_', both spellings of the strategies), one *.json file with them, and
/// native options like --comm.wire. Every argument is mapped, accepted without effect (a log line says so), or refused
/// if it would change results. Throws Error::usage, Error::config, Error::io.
GlueOptions read_glue_flags(std::vector<std::string> arguments);

}  // namespace trireme
