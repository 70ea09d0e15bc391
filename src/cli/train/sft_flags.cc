#include "cli/train/sft_flags.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>

#include "base/error.h"
#include "base/json.h"
#include "base/json_text.h"
#include "cli/command.h"
#include "cli/train/config_shape.h"
#include "config/foreign_options.h"
#include "config/schema.h"
#include "config/setting.h"
#include "train/sft/sft.h"
#include "train/start/runnable.h"

namespace trireme {
namespace {

/// A flag and the native option that it names.
struct Short {
  const char *flag, *option, *value, *help;
};
constexpr Short kShort[] = {
    {"--model", "model.init", "MODEL", "what learns: a folder, a name of the Hugging Face hub, or a run"},
    {"--data", "data.train", "DATA", "conversations: a file, or a data set of the hub"},
    {"--validation", "data.validation", "DATA", "conversations for validation, which are not trained on"},
    {"--validation-share", "chat.validation-share", "X",
     "without --validation: this share of the conversations (0.05)"},
    {"--output", "run.dir", "RUN", "run folder with snapshots and logs; the same command resumes it (run)"},
    {"--loss-on", "chat.loss-on", "WHO",
     "which turns the loss counts: assistant, last (its last turn) or all (assistant)"},
    {"--epochs", "chat.epochs", "X", "passes over the conversations (3)"},
    {"--sequence", "batch.sequence", "N", "ids of a row, which conversations share (1024, or the model's context)"},
    {"--batch", "batch.global", "N", "rows per step over all ranks (8)"},
    {"--learning-rate", "optim.learning-rate", "X", "peak, after a warm-up of 3 % of the steps (2e-5)"},
    {"--chat-template", "chat.template", "FILE|NAME", "instead of the model's usual template"},
    {"--skip-bad-rows", "chat.skip-bad-rows", "", "count rows without a usable conversation instead of ending there"},
};
/// Flags that may be repeated.
constexpr Short kRepeated[] = {
    {"--column", "chat.columns", "USUAL=NAME", "the file's name of a column, as messages=dialog; may be repeated"},
    {"--role", "chat.roles", "WORD=ROLE", "the file's word for system, user, assistant or tool; may be repeated"},
    {"--template-option", "chat.template-options", "NAME=VALUE", "variable of the template; may be repeated"},
};

constexpr const char* kUsage =
    "usage: trireme sft --model MODEL --data DATA --output RUN [CONFIG.yaml...] [--option value ...]\n"
    "       mpirun -n N trireme sft ...\n\n"
    "Fine-tunes a language model on conversations: messages, ShareGPT, Alpaca, or prompt and completion. The model's\n"
    "own chat template makes text of them, and the model is trained on what the assistant says. The loss of a step is\n"
    "the mean over all ids that count in it, for any number of ranks. The same command resumes a run. Then:\n"
    "  trireme sample --model RUN --chat --interactive     talks with the result\n"
    "  trireme export --model RUN --output FOLDER          writes it for transformers, with tokenizer and template\n"
    "  trireme tokenizer chat --tokenizer MODEL DATA       shows beforehand what the loss will count\n\n";

constexpr const char* kMore =
    "\nEvery option of `trireme train` that has a meaning here may be given too, in files or as flags, as "
    "--precision.dtype\n"
    "bf16, --mesh.tensor 2, --optim.schedule linear, --model.recompute full. Defaults that differ from those below:\n"
    "batch.global 8, optim.learning-rate 2e-5 (to 0), optim.warmup-steps 3 % of the steps, optim.beta2 0.999,\n"
    "optim.weight-decay 0; run.steps follows from chat.epochs, and evaluation.every and checkpoint.every are an "
    "epoch.\n\n";

const Short* find(std::span<const Short> flags, const std::string& word) {
  const std::string name = canonical(word.substr(0, word.find('=')));
  const auto found = std::ranges::find_if(flags, [&](const Short& one) { return name == one.flag; });
  return found == flags.end() ? nullptr : &*found;
}

bool is_own(const std::string& word) { return find(kShort, word) != nullptr || find(kRepeated, word) != nullptr; }

/// What repeated flags collect: a JSON object of a template's variables, or a list with commas.
class Collected {
 public:
  void add(const Short& flag, const std::string& given) {
    const size_t sign = given.find('=');
    require(sign != std::string::npos && sign > 0 && sign + 1 < given.size(), ErrorKind::usage,
            "{} {}: expected NAME=VALUE", flag.flag, given);
    std::string& text = texts_[static_cast<size_t>(&flag - kRepeated)];
    if (&flag != &kRepeated[2]) {
      text += (text.empty() ? "" : ", ") + given;
      return;
    }
    const std::string name = given.substr(0, sign), value = given.substr(sign + 1);
    require(!variables_.contains(name), ErrorKind::usage, "{} {}: \"{}\" is given twice", flag.flag, given, name);
    const Json parsed = Json::parse(value, nullptr, false);
    variables_[name] = parsed.is_discarded() ? Json(value) : parsed;
    text = dump_json(variables_);
  }
  void append_to(std::vector<std::string>& words) const {
    for (size_t i = 0; i < std::size(kRepeated); ++i) {
      if (!texts_[i].empty()) words.push_back(fmt::format("--{}={}", kRepeated[i].option, texts_[i]));
    }
  }

 private:
  std::string texts_[std::size(kRepeated)];
  Json variables_ = Json::object();
};

/// The words with native options instead of short flags.
std::vector<std::string> native_words(std::vector<std::string> words) {
  take_foreign_options("sft", is_own, words);
  std::vector<std::string> native;
  Collected collected;
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    if (const Short* one = find(kShort, words[i])) {
      native.push_back(std::string("--") + one->option + (equals == std::string::npos ? "" : words[i].substr(equals)));
    } else if (const Short* repeated = find(kRepeated, words[i])) {
      require(equals != std::string::npos || i + 1 < words.size(), ErrorKind::usage, "{} needs NAME=VALUE",
              repeated->flag);
      collected.add(*repeated, equals == std::string::npos ? words[++i] : words[i].substr(equals + 1));
    } else {
      native.push_back(words[i]);
    }
  }
  collected.append_to(native);
  return native;
}

}  // namespace

std::string sft_help() {
  std::string text = kUsage;
  for (const std::span<const Short> flags : {std::span<const Short>(kShort), std::span<const Short>(kRepeated)}) {
    for (const Short& one : flags)
      text += fmt::format("  {:<30}{}\n", fmt::format("{} {}", one.flag, one.value), one.help);
  }
  return text + kMore;
}

CommandShape sft_shape() {
  CommandShape shape{.name = "sft",
                     .purpose =
                         "Fine-tunes a language model on conversations: messages, ShareGPT, Alpaca, or prompt and "
                         "completion. The model's own chat template makes text of them, and the model is "
                         "trained on what the assistant says. The same command resumes a run.",
                     .flags = file_flags(),
                     .groups = option_groups()};
  for (const std::span<const Short> flags : {std::span<const Short>(kShort), std::span<const Short>(kRepeated)}) {
    for (const Short& one : flags) {
      const std::string value = one.value;
      const Option& option = *schema().find(one.option);
      FlagShape flag{.names = {one.flag}, .help = one.help, .choices = option.choices};
      flag.repeats = value.find('=') != std::string::npos;
      flag.kind = value.empty()                  ? ValueKind::none
                  : !option.choices.empty()      ? ValueKind::choice
                  : value == "N" || value == "X" ? ValueKind::number
                                                 : ValueKind::text;
      shape.flags.push_back(std::move(flag));
    }
  }
  return shape;
}

SftWords read_sft_words(std::vector<std::string> words) {
  const ConfigWords split = split_words(native_words(std::move(words)));
  std::vector<std::string> flags = chat_tuning_defaults();
  flags.insert(flags.end(), split.flags.begin(), split.flags.end());
  SftWords read{load_config(split.files, flags, split.dialect.value_or("native")), split.files};
  require_runnable(read.loaded);
  return read;
}

}  // namespace trireme
