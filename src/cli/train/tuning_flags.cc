#include "cli/train/tuning_flags.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/command.h"
#include "config/flag_word.h"
#include "config/trl.h"
#include "train/start/resolve.h"

namespace trireme {
namespace {

constexpr const char* kMore =
    "\nEvery option of `trireme train` that has a meaning here may be given too, in files or as flags, such as\n"
    "--precision.dtype bf16, --mesh.tensor 2, --optim.schedule linear, --model.recompute full; `trireme train --help`\n"
    "describes them. Defaults of this command that differ from those there:\n";

constexpr OptionFlag kRepeated[] = {
    {"--column", "chat.columns", "USUAL=NAME", "the file's name of a column, such as messages=dialog; may be repeated",
     Collects::list},
    {"--role", "chat.roles", "WORD=ROLE", "the file's word for system, user, assistant or tool; may be repeated",
     Collects::list},
    {"--template-option", "chat.template-options", "NAME=VALUE", "variable of the template; may be repeated",
     Collects::object},
};

void declare(Flags& app, const TuningCommand& command, ConfigWords& words) {
  app.set_usage(
      fmt::format("trireme {0} --model MODEL --data DATA --output RUN [CONFIG.yaml...] [--option value ...]\n"
                  "mpirun -n N trireme {0} ...",
                  command.name));
  app.add_configuration(words, OptionsInHelp::names);
  app.add_option_flags(command.flags);
  app.add_option_flags(kRepeated);
  app.set_footer(std::string(command.notes) + kMore + command.defaults);
}

OptionNames names_of(const TuningCommand& command) {
  std::vector<OptionName> names;
  for (const OptionFlag& one : command.flags) names.push_back({one.option, one.flag});
  return OptionNames(std::move(names));
}

/// TRL's names among the words, or in a file, choose its dialect.
std::vector<std::string> with_dialect(const TuningCommand& command, std::vector<std::string> words) {
  const auto is_own = [&](const std::string& name) {
    const auto has = [&](std::span<const OptionFlag> flags) {
      return std::ranges::any_of(flags, [&](const OptionFlag& one) { return name == one.flag; });
    };
    return has(command.flags) || has(kRepeated);
  };
  const bool chosen =
      std::ranges::any_of(words, [](const std::string& word) { return flag_word(word).name == "--dialect"; });
  if (!chosen && speaks_trl(words, is_own)) words.insert(words.begin(), {"--dialect", command.dialect});
  return words;
}

TuningWords load(const TuningCommand& command, const ConfigWords& words) {
  std::vector<std::string> flags = command.default_flags();
  flags.insert(flags.end(), words.flags.begin(), words.flags.end());
  TuningWords read{load_config(words.files, flags, words.dialect, names_of(command)), words.files};
  const bool own_defaults = std::ranges::find(words.flags, "--default") == words.flags.end();
  for (auto& [option, origin] : read.loaded.origins) {
    if (own_defaults && origin.layer == kDefaultLayer && origin.source == "flag --default")
      origin.source = std::string("default of trireme ") + command.name;
  }
  require_runnable(read.loaded);
  return read;
}

}  // namespace

int run_tuning(const TuningCommand& command, CommandLine line) {
  line.words = with_dialect(command, std::move(line.words));
  Flags app(std::move(line), std::string("trireme ") + command.name, command.purpose);
  ConfigWords words;
  declare(app, command, words);
  if (const auto code = app.answer()) return *code;
  return run_recipe([&] {
    app.parse();
    return command.recipe(load(command, words).loaded);
  });
}

TuningWords read_tuning_words(const TuningCommand& command, std::vector<std::string> words) {
  Flags app(with_dialect(command, std::move(words)), std::string("trireme ") + command.name, command.purpose);
  ConfigWords split;
  declare(app, command, split);
  app.parse();
  return load(command, split);
}

}  // namespace trireme
