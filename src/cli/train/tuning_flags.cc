#include "cli/train/tuning_flags.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "base/error.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/option_name.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/train/config_shape.h"
#include "cli/train/recipe_command.h"
#include "config/flag_word.h"
#include "config/foreign_options.h"
#include "config/schema.h"
#include "config/setting.h"
#include "train/start/resolve.h"

namespace trireme {
namespace {

constexpr const char* kMore =
    "\nEvery option of `trireme train` that has a meaning here may be given too, in files or as flags, such as\n"
    "--precision.dtype bf16, --mesh.tensor 2, --optim.schedule linear, --model.recompute full. Their names are below;\n"
    "`trireme train --help` describes them. Defaults of this command that differ from those there:\n";

/// Flags that may be repeated.
constexpr TuningFlag kRepeated[] = {
    {"--column", "chat.columns", "USUAL=NAME", "the file's name of a column, such as messages=dialog; may be repeated"},
    {"--role", "chat.roles", "WORD=ROLE", "the file's word for system, user, assistant or tool; may be repeated"},
    {"--template-option", "chat.template-options", "NAME=VALUE", "variable of the template; may be repeated"},
};

const TuningFlag* find(std::span<const TuningFlag> flags, const std::string& name) {
  const auto found = std::ranges::find_if(flags, [&](const TuningFlag& one) { return name == one.flag; });
  return found == flags.end() ? nullptr : &*found;
}

/// What repeated flags collect: a JSON object of a template's variables, or a list with commas.
class Collected {
 public:
  void add(const TuningFlag& flag, const std::string& given) {
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
std::vector<std::string> native_words(const TuningCommand& command, std::vector<std::string> words,
                                      std::vector<std::string>& problems) {
  const auto is_own = [&](const std::string& name) {
    return find(command.flags, name) != nullptr || find(kRepeated, name) != nullptr;
  };
  problems = take_foreign_options(command.name, is_own, words);
  std::vector<std::string> native;
  Collected collected;
  std::map<std::string, std::string> given;  // values of the flags that name data
  for (size_t i = 0; i < words.size(); ++i) {
    const FlagWord flag = flag_word(words[i]);
    if (flag.name == "--data" || flag.name == "--validation") {
      const std::string value = flag.value ? *flag.value : i + 1 < words.size() ? words[i + 1] : "";
      const auto [at, is_new] = given.emplace(flag.name, value);
      require(is_new || at->second == value, ErrorKind::usage,
              "{} is given twice, {} and {}, but one file or data set is read; write both into one file", flag.name,
              at->second, value);
    }
    if (const TuningFlag* one = find(command.flags, flag.name)) {
      native.push_back(std::string("--") + one->option + (flag.value ? "=" + *flag.value : ""));
    } else if (const TuningFlag* repeated = find(kRepeated, flag.name)) {
      require(flag.value || i + 1 < words.size(), ErrorKind::usage, "{} needs NAME=VALUE", repeated->flag);
      collected.add(*repeated, flag.value ? *flag.value : words[++i]);
    } else {
      native.push_back(words[i]);
    }
  }
  collected.append_to(native);
  return native;
}

/// What --help prints before the native options.
std::string tuning_help(const TuningCommand& command) {
  std::string text = command.usage;
  for (const std::span<const TuningFlag> flags : {command.flags, std::span<const TuningFlag>(kRepeated)}) {
    for (const TuningFlag& one : flags)
      text += fmt::format("  {:<30}{}\n", fmt::format("{} {}", one.flag, one.value), one.help);
  }
  text += std::string(kMore) + command.defaults;
  constexpr size_t kIndent = 4, kWidth = 112;
  for (const OptionGroup& group : schema().groups()) {
    std::string names;
    for (const Option& option : schema().options()) {
      if (option.group == group.name) names += fmt::format("{}--{}", names.empty() ? "" : " ", option.name);
    }
    text += fmt::format("  {}: {}\n{}{}\n", group.name, group.help, std::string(kIndent, ' '),
                        wrapped(names, kWidth - kIndent, kIndent));
  }
  return text;
}

}  // namespace

int run_tuning(const TuningCommand& command, const std::vector<std::string>& arguments) {
  if (asks_help(arguments)) {
    fmt::print("{}", tuning_help(command));
    return 0;
  }
  static const std::vector<OptionName> names = [&] {
    std::vector<OptionName> all;
    for (const TuningFlag& one : command.flags) all.push_back({one.option, one.flag});
    return all;
  }();
  set_option_names(names);
  return run_recipe(arguments,
                    [&](const auto& words) { return command.recipe(read_tuning_words(command, words).loaded); });
}

CommandShape tuning_shape(const TuningCommand& command) {
  CommandShape shape{
      .name = command.name, .purpose = command.purpose, .flags = file_flags(), .groups = option_groups()};
  for (const std::span<const TuningFlag> flags : {command.flags, std::span<const TuningFlag>(kRepeated)}) {
    for (const TuningFlag& one : flags) {
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

TuningWords read_tuning_words(const TuningCommand& command, std::vector<std::string> words) {
  std::vector<std::string> problems;
  std::vector<std::string> native = native_words(command, std::move(words), problems);
  const ConfigWords split = split_words(std::move(native), std::move(problems));
  std::vector<std::string> flags = command.default_flags();
  flags.insert(flags.end(), split.flags.begin(), split.flags.end());
  TuningWords read{load_config(split.files, flags, split.dialect.value_or("native")), split.files};
  const bool own_defaults = std::ranges::find(split.flags, "--default") == split.flags.end();
  for (auto& [option, origin] : read.loaded.origins) {
    if (own_defaults && origin.layer == kDefaultLayer && origin.source == "flag --default")
      origin.source = std::string("default of trireme ") + command.name;
  }
  require_runnable(read.loaded);
  return read;
}

}  // namespace trireme
