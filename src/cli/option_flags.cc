#include "cli/flags.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/text.h"
#include "config/dialect.h"
#include "config/schema.h"
#include "config/setting.h"

namespace trireme {
namespace {

FlagShape shape_of(const Option& option) {
  FlagShape shape{.names = {"--" + option.name}, .help = option.help};
  shape.value_is_optional = option.value_is_optional();
  shape.fallback = to_text(option.default_value);
  switch (option.type) {
    case OptionType::text:
      shape.kind = ValueKind::text;
      break;
    case OptionType::choice:
      shape.kind = ValueKind::choice;
      shape.choices = option.choices;
      break;
    case OptionType::integer:
    case OptionType::number:
      shape.kind = ValueKind::number;
      shape.limits = option.expected();
      break;
    case OptionType::flag:
      shape.kind = ValueKind::choice;
      shape.choices = {"true", "false"};
      break;
  }
  return shape;
}

}  // namespace

void CollectedOptions::add(const OptionFlag& flag, const std::string& value) {
  const size_t sign = value.find('=');
  const bool is_pair = sign != std::string::npos && sign > 0 && sign + 1 < value.size();
  require(is_pair || flag.collects == Collects::values, ErrorKind::usage, "{} {}: expected NAME=VALUE", flag.flag,
          value);
  auto one = std::ranges::find(collected_, &flag, &Collected::flag);
  if (one == collected_.end()) one = collected_.insert(one, {.flag = &flag, .text = ""});
  if (flag.collects != Collects::object) {
    one->text += (one->text.empty() ? "" : ", ") + value;
    return;
  }
  const std::string name = value.substr(0, sign), text = value.substr(sign + 1);
  Json object = one->text.empty() ? Json::object() : Json::parse(one->text);
  require(!object.contains(name), ErrorKind::usage, "{} {}: \"{}\" is given twice", flag.flag, value, name);
  const Json parsed = Json::parse(text, nullptr, false);
  object[name] = parsed.is_discarded() ? Json(text) : parsed;
  one->text = dump_json(object);
}

std::vector<std::string> CollectedOptions::words() const {
  std::vector<std::string> words;
  for (const Collected& one : collected_) words.push_back(fmt::format("--{}={}", one.flag->option, one.text));
  return words;
}

FlagShape shape_of(const OptionFlag& flag) {
  const std::string value = flag.value;
  const Option& option = *schema().find(flag.option);
  return {.names = {flag.flag},
          .help = flag.help,
          .kind = value.empty()                  ? ValueKind::none
                  : !option.choices.empty()      ? ValueKind::choice
                  : value == "N" || value == "X" ? ValueKind::number
                                                 : ValueKind::text,
          .choices = option.choices,
          .repeats = flag.collects != Collects::nothing};
}

std::string option_names_help() {
  constexpr size_t kIndent = 4, kWidth = 112;
  std::string text;
  for (const FlagGroup& group : option_groups()) {
    std::string names;
    for (const FlagShape& flag : group.flags) names += (names.empty() ? "" : " ") + flag.names[0];
    text += fmt::format("  {}\n{}{}\n", group.heading, std::string(kIndent, ' '),
                        wrapped(names, kWidth - kIndent, kIndent));
  }
  return text;
}

std::vector<FlagGroup> option_groups(bool (*wanted)(std::string_view name)) {
  std::vector<FlagGroup> groups;
  for (const OptionGroup& group : schema().groups()) {
    FlagGroup shape{fmt::format("{}: {}", group.name, group.help), {}};
    for (const Option& option : schema().options()) {
      if (option.group == group.name && (!wanted || wanted(option.name))) shape.flags.push_back(shape_of(option));
    }
    if (!shape.flags.empty()) groups.push_back(std::move(shape));
  }
  return groups;
}

void require_spelling(const std::vector<std::string>& words, const std::vector<std::string>& own) {
  for (const std::string& word : words) {
    const std::string name = word.substr(0, word.find('='));
    if (!name.starts_with("--") || schema().find(name.substr(2)) != nullptr) continue;
    const bool is_key = std::ranges::any_of(
        dialects(), [&](const Dialect* dialect) { return dialect->find(name.substr(2)) != nullptr; });
    if (is_key) continue;
    std::vector<std::string> meant;
    std::ranges::copy_if(own, std::back_inserter(meant),
                         [&](const std::string& known) { return is_misspelling_of(name.substr(2), known.substr(2)); });
    require(meant.empty(), ErrorKind::usage, "{}: unknown flag; did you mean {}?", name, fmt::join(meant, " or "));
  }
}

std::vector<FlagShape> file_flags() {
  std::vector<std::string> names = {"native"};
  for (const Dialect* dialect : dialects()) names.emplace_back(dialect->name);
  return {
      {.names = {"CONFIG"}, .help = "YAML files; later ones override earlier ones", .repeats = true},
      {.names = {"-d", "--conf-dir"}, .help = "folder of the files"},
      {.names = {"--dialect"},
       .help = "whose files they are (default: recognised)",
       .kind = ValueKind::choice,
       .choices = names},
      {.names = {"--default"}, .help = "NAME=VALUE of an option that neither a file nor a flag sets", .repeats = true},
      {.names = {"--verbose"}, .help = "also show why keys have no effect", .kind = ValueKind::none}};
}

}  // namespace trireme
