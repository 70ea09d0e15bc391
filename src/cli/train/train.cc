#include "train/pretraining/pretraining.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/stop.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/train/config_shape.h"
#include "cli/train/recipe_command.h"
#include "config/document.h"
#include "config/load.h"
#include "train/start/resolve.h"

namespace trireme {
namespace {

constexpr const char* kUsage =
    "usage: trireme train CONFIG.yaml... [-d FOLDER] [--option value ...]\n"
    "       mpirun -n N trireme train CONFIG.yaml... [--option value ...]\n\n"
    "Trains a model, or resumes the run in run.dir. Later files override earlier ones, flags override files.\n"
    "Files of other programs are also accepted: --dialect gpt-neox, intel-nanogpt, nanogpt (usually recognised).\n"
    "-d FOLDER is the folder of the files; --verbose shows why keys have no effect.\n"
    "--default NAME=VALUE sets an option that neither a file nor a flag sets.\n"
    "--profile N prints the time per operator over N steps and writes RUN/trace.json.\n"
    "SIGTERM, SIGINT or SIGUSR1 to any rank stops all ranks after the same step, with a snapshot and exit code 75.\n\n";

LoadedConfig read_arguments(const std::vector<std::string>& arguments) {
  require(!arguments.empty(), ErrorKind::usage,
          "train needs a configuration file or options; `trireme train --help` explains them");
  const ConfigWords words = split_words(arguments);
  LoadedConfig loaded = load_config(words.files, words.flags, words.dialect);
  require_runnable(loaded);
  for (const auto& [option, origin] : loaded.origins)
    require(!option.starts_with("chat.") && !option.starts_with("dpo."), ErrorKind::config,
            "{} is an option of `trireme {}`, which trains on conversations; remove it, or use that command",
            loaded.where(option), option.starts_with("dpo.") ? "dpo" : "sft");
  if (words.verbose) std::ranges::move(loaded.details, std::back_inserter(loaded.notes));
  return loaded;
}

}  // namespace

CommandShape train_shape() {
  return {.name = "train",
          .purpose =
              "Trains a model, or resumes the run in run.dir. Later files override earlier ones, flags override "
              "files. Alone, or under mpirun, srun or trireme launch.",
          .notes =
              "SIGTERM, SIGINT or SIGUSR1 to any rank stops all ranks after the same step, with a snapshot and "
              "exit code 75. Files of GPT-NeoX, nanoGPT and others are recognised.",
          .flags = file_flags(),
          .groups = option_groups()};
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): the signature of every command
int run_train(std::vector<std::string> arguments) {
  if (asks_help(arguments)) {
    fmt::print("{}{}", kUsage, options_help());
    return 0;
  }
  return run_recipe(arguments, [](const auto& words) { return pretraining(read_arguments(words)); });
}

}  // namespace trireme
