// trireme glue: fine-tunes an encoder on a GLUE task or on your own rows, with run_glue's arguments.

#include "cli/command.h"
#include "cli/train/glue_flags.h"
#include "cli/train/recipe_command.h"
#include "train/glue/finetune.h"

namespace trireme {

// NOLINTNEXTLINE(performance-unnecessary-value-param): the signature of every command
int run_glue(std::vector<std::string> arguments) {
  if (const auto code = print_glue_help(arguments)) return *code;
  set_option_names(glue_option_names());
  return run_recipe(arguments, [](const auto& words) { return fine_tuning(read_glue_flags(words)); });
}

}  // namespace trireme
