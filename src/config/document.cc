#include "config/document.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/text.h"
#include "config/dialect.h"
#include "config/foreign_options.h"
#include "config/schema.h"

namespace trireme {
namespace {

std::string quoted(const std::string& text) { return dump_json(Json(text)); }

std::string default_text(const Value& value) {
  const auto* text = std::get_if<std::string>(&value);
  if (!text) return to_text(value);
  return text->empty() ? "empty" : *text;
}

/// Written so that YAML reads it back with the same type and value.
std::string yaml_text(const Value& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text ? quoted(*text) : to_text(value);
}

const char* type_word(OptionType type) {
  switch (type) {
    case OptionType::text:
      return "TEXT";
    case OptionType::choice:
      return "CHOICE";
    case OptionType::integer:
      return "N";
    case OptionType::number:
      return "X";
    case OptionType::flag:
      return "[true|false]";
  }
  return "";
}

std::string range_text(const Option& option) {
  if (option.type == OptionType::integer || option.type == OptionType::number) {
    return fmt::format("{} to {}", to_text(option.minimum), to_text(option.maximum));
  }
  return option.type == OptionType::choice ? fmt::format("{}", fmt::join(option.choices, ", ")) : "";
}

std::string table_cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, 1, '\\');
  return text;
}

void append_dialect(std::string& page, const Dialect& dialect) {
  page += fmt::format("\n## Dialect {}\n\n{}.\n", dialect.name, dialect.help);
  for (const Dialect* other : dialects()) {
    if (other != &dialect && other->keys.data() == dialect.keys.data() && page.find(other->help) != page.npos) {
      page += fmt::format("Its keys are those of {}.\n", other->name);
      return;
    }
  }
  page += "\n| key | default | what Trireme does |\n|---|---|---|\n";
  for (const DialectKey& key : dialect.keys) {
    const char* role = key.role == KeyRole::no_effect ? "no effect: " : key.role == KeyRole::refused ? "refused: " : "";
    page += fmt::format("| {} | {} | {}{} |\n", key.name, table_cell(yaml_text(key.default_value)), role,
                        table_cell(key.meaning));
  }
}

std::string effect_of(const ForeignOption& option) {
  const std::string text = table_cell(option.text);
  switch (option.kind) {
    case ForeignOption::Kind::same:
      return text;
    case ForeignOption::Kind::no_effect:
      return text.empty() ? "no effect" : "no effect: " + text;
    case ForeignOption::Kind::elsewhere:
      return "refused; instead: " + text;
  }
  return "";
}

void append_foreign_options(std::string& page) {
  page +=
      "\n# Flags of other programs\n\n"
      "Flags of other programs that are given to a command of Trireme without a dialect: each is renamed, has no "
      "effect here (a log line says so), or is refused with what to use instead. Flags without a reason describe "
      "files, processes and devices, which Trireme determines in other ways.\n\n"
      "| after | flag | what Trireme does |\n|---|---|---|\n";
  for (const ForeignOption& option : foreign_options())
    page += fmt::format("| {} | {} | {} |\n", table_cell(option.commands), table_cell(std::string(option.name)),
                        effect_of(option));
}

/// The option that determines this one: overridden_by(), or model.init for a size of a model whose folder has not been
/// read (then no origin says that the caps are the folder's).
std::string_view decided_by(const LoadedConfig& loaded, const Option& option) {
  constexpr std::string_view kOfRuns[] = {"model.preset",           "model.init",    "model.vocabulary-multiple",
                                          "model.recompute",        "model.dropout", "model.embedding-dropout",
                                          "model.attention-dropout"};
  const std::string& init = loaded.config.model.init;
  const bool named = !init.empty() && init != "scratch" && option.group == "model";
  const bool is_default = get(loaded.config, option) == option.default_value;
  if (named && is_default && !loaded.origins.contains(option.name) &&
      std::ranges::find(kOfRuns, option.name) == std::end(kOfRuns) && !loaded.origins.contains("model.logits-cap"))
    return "model.init";
  return overridden_by(loaded.config, option);
}

Json json_value(const Value& value) {
  return std::visit(
      []<class T>(const T& held) -> Json {
        if constexpr (std::is_same_v<T, std::monostate>) {
          return nullptr;
        } else {
          return held;
        }
      },
      value);
}

Setting json_setting(const std::string& name, const Json& json, std::string_view where) {
  Setting setting{name, {}, "", {std::string(where), 0, 0}, json.is_null() ? "nothing" : "a list or an object"};
  if (json.is_boolean()) setting.value = json.get<bool>();
  if (json.is_number_integer()) setting.value = json.get<int64_t>();
  if (json.is_number_unsigned() && json.get<uint64_t>() > uint64_t{INT64_MAX}) setting.value = json.get<double>();
  if (json.is_number_float()) setting.value = json.get<double>();
  if (json.is_string()) setting.value = json.get<std::string>();
  setting.text = to_text(setting.value);
  return setting;
}

}  // namespace

std::string options_help() {
  constexpr size_t kColumn = 8, kWidth = 112;
  std::string help;
  for (const OptionGroup& group : schema().groups()) {
    help += fmt::format("\n{}: {}\n", group.name, group.help);
    for (const Option& option : schema().options()) {
      if (option.group != group.name) continue;
      std::string text = option.help;
      if (const std::string range = range_text(option); !range.empty()) text += fmt::format("; {}", range);
      text += fmt::format(" [{}]", default_text(option.default_value));
      help += fmt::format("  --{} {}\n{}{}\n", option.name, type_word(option.type), std::string(kColumn, ' '),
                          wrapped(text, kWidth - kColumn, kColumn));
    }
  }
  return help;
}

namespace {

/// What nearly every run sets.
constexpr std::string_view kUsual[] = {
    "model.init",  "model.preset",        "data.dir",           "data.tokenizer",  "batch.global",
    "batch.micro", "optim.learning-rate", "optim.warmup-steps", "precision.dtype", "mesh.tensor",
    "optim.shard", "evaluation.every",    "checkpoint.every",   "run.dir",         "run.steps"};

void append_option(std::string& page, const Option& option) {
  page += fmt::format("| {} | {} | {} | {} |\n", option.name, table_cell(option.expected()),
                      default_text(option.default_value), table_cell(option.help));
}

constexpr const char* kOptionTable = "\n\n| option | values | default | meaning |\n|---|---|---|---|\n";

}  // namespace

std::string options_markdown() {
  std::string page =
      "# Options\n\n"
      "Generated by `trireme config options` from the declarations in `src/config/`; do not edit by hand.\n\n"
      "In a YAML file, options are written in their groups (`optim:` and, indented, `learning-rate: 3e-4`), and as "
      "flags: "
      "`--optim.learning-rate 3e-4` or `--optim.learning-rate=3e-4`. `-` and `_` are the same; a true/false flag "
      "without a value means true. A later file overrides an earlier one, and flags override files. `trireme config "
      "show FILES... "
      "[--flags]` prints the result and where each value came from.\n\n"
      "## The options that nearly every run sets";
  page += kOptionTable;
  for (const std::string_view name : kUsual) append_option(page, *schema().find(name));
  for (const OptionGroup& group : schema().groups()) {
    page += fmt::format("\n## {}: {}{}", group.name, group.help, kOptionTable);
    for (const Option& option : schema().options())
      if (option.group == group.name) append_option(page, option);
  }
  page +=
      "\n# Dialects\n\n"
      "Configuration files and flags of other programs are translated into the options above. A dialect is recognised "
      "from its files or chosen with `--dialect NAME`; native files and flags may be used beside it. Each key is "
      "mapped, has no effect here (a log line says so), or is refused with what to do instead.\n";
  for (const Dialect* dialect : dialects()) append_dialect(page, *dialect);
  append_foreign_options(page);
  return page;
}

std::string to_yaml(const LoadedConfig& loaded) {
  std::string text;
  for (const std::string& note : loaded.notes) text += fmt::format("# {}\n", note);
  std::string group;
  for (const Option& option : schema().options()) {
    if (option.group != group) text += fmt::format("{}:\n", option.group);
    group = option.group;
    const std::string name = option.name.substr(group.size() + 1);
    const std::string_view by = decided_by(loaded, option);
    if (!by.empty()) {
      text += fmt::format("  # {}: from {}\n", name, by);
      continue;
    }
    const Value value = get(loaded.config, option);
    text += fmt::format("  {}: {}", name, yaml_text(value));
    const auto origin = loaded.origins.find(option.name);
    if (origin != loaded.origins.end()) {
      text += fmt::format("  # {}", origin->second.text());
    }
    text += '\n';
  }
  return text;
}

Json to_json(const Config& config) {
  Json json = Json::object();
  for (const Option& option : schema().options()) {
    json[option.group][option.name.substr(option.group.size() + 1)] = json_value(get(config, option));
  }
  return json;
}

Config config_from_json(const Json& json, std::string_view where) {
  Config config;
  require(json.is_object(), ErrorKind::config, "{}: the configuration is not a JSON object", where);
  for (const auto& [group, members] : json.items()) {
    require(members.is_object() && schema().is_group(group), ErrorKind::config, "{}: unknown group of options \"{}\"",
            where, group);
    for (const auto& [name, value] : members.items()) {
      const std::string full = group + "." + name;
      const Option* option = schema().find(full);
      require(option, ErrorKind::config, "{}: unknown option \"{}\"; another version wrote the file", where, full);
      set(config, *option, convert(*option, json_setting(full, value, where)));
    }
  }
  return config;
}

}  // namespace trireme
