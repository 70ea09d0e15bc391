// trireme sft: fine-tunes a language model on conversations.

#include "train/sft/sft.h"

#include <fmt/core.h>

#include "cli/command.h"
#include "cli/flags.h"
#include "cli/train/recipe_command.h"
#include "cli/train/sft_flags.h"
#include "config/document.h"

namespace trireme {

// NOLINTNEXTLINE(performance-unnecessary-value-param): the signature of every command
int run_sft(std::vector<std::string> arguments) {
  if (asks_help(arguments)) {
    fmt::print("{}{}", sft_help(), options_help());
    return 0;
  }
  return run_recipe(arguments, [](const auto& words) { return chat_tuning(read_sft_words(words).loaded); });
}

}  // namespace trireme
