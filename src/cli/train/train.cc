#include "train/start/recipe.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "config/load.h"
#include "train/start/resolve.h"

namespace trireme {
namespace {

LoadedConfig load(const ConfigWords& words) {
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

int run_train(CommandLine line) {
  Flags app(std::move(line), "trireme train",
            "Trains a model, or resumes the run in run.dir. Later files override earlier ones, flags override files. "
            "Alone, or under mpirun, srun or trireme launch.");
  ConfigWords words;
  app.add_configuration(words, OptionsInHelp::described);
  app.set_usage(
      "trireme train CONFIG.yaml... [-d FOLDER] [--option value ...]\n"
      "mpirun -n N trireme train CONFIG.yaml... [--option value ...]");
  app.set_footer(
      "Files of other programs are also accepted: --dialect gpt-neox, intel-nanogpt, nanogpt (usually recognised).\n"
      "--profile N prints the time per operator over N steps and writes RUN/trace.json.\n"
      "SIGTERM, SIGINT or SIGUSR1 to any rank stops all ranks after the same step, with a snapshot and exit code 75.");
  if (const auto code = app.answer()) return *code;
  return run_recipe([&] {
    require(!app.words().empty(), ErrorKind::usage,
            "train needs a configuration file or options; `trireme train --help` explains them");
    app.parse();
    return pretraining(load(words));
  });
}

}  // namespace trireme
