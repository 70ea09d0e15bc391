#include "config/schema.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "config/collector.h"

namespace trireme {
namespace {

Field field_of(Config& config, const Option& option) {
  Collector collector;
  config.visit(collector);
  return collector.fields[option.index];
}

template <class T>
bool in_range(const Option& option, T value) {
  return value >= std::get<T>(option.minimum) && value <= std::get<T>(option.maximum);
}

}  // namespace

Schema::Schema() {
  Config defaults;
  Collector collector;
  defaults.visit(collector);
  groups_ = std::move(collector.groups);
  options_ = std::move(collector.options);
}

const Option* Schema::find(std::string_view name) const {
  const std::string wanted = canonical(name);
  for (const Option& option : options_) {
    if (option.name == wanted) return &option;
  }
  return nullptr;
}

bool Schema::is_group(std::string_view name) const {
  for (const OptionGroup& group : groups_) {
    if (group.name == canonical(name)) return true;
  }
  return false;
}

std::vector<std::string> Schema::names() const {
  std::vector<std::string> names;
  for (const Option& option : options_) names.push_back(option.name);
  return names;
}

const Schema& schema() {
  static const Schema instance;
  return instance;
}

std::string_view overridden_by(const Config& config, const Option& option) {
  if (config.optim.warmup_fraction > 0 && option.name == "optim.warmup-steps") return "optim.warmup-fraction";
  return config.batch.per_rank > 0 && option.name == "batch.global" ? "batch.per-rank" : "";
}

bool changes_results(const Option& option) {
  constexpr std::string_view kGroups[] = {"mesh", "checkpoint", "log", "launch"};
  constexpr std::string_view kOptions[] = {
      "data.verify",    "data.trust",       "data.index-dir",    "model.recompute", "chat.cache-dir",
      "comm.interface", "comm.bucket-mb",   "comm.cores",        "evaluation.only", "run.dir",
      "run.device",     "run.hang-timeout", "run.start-timeout", "run.hash-every",  "run.on-difference",
      "run.tune",       "run.overwrite",    "run.take-over",     "batch.micro",     "batch.accumulation"};
  return std::ranges::find(kGroups, option.group) == std::end(kGroups) &&
         std::ranges::find(kOptions, option.name) == std::end(kOptions);
}

std::string Option::expected() const {
  switch (type) {
    case OptionType::text:
      return "text";
    case OptionType::choice:
      return fmt::format("one of {}", fmt::join(choices, ", "));
    case OptionType::integer:
      return fmt::format("a whole number from {} to {}", to_text(minimum), to_text(maximum));
    case OptionType::number:
      return fmt::format("a number from {} to {}", to_text(minimum), to_text(maximum));
    case OptionType::flag:
      return "true or false";
  }
  return "";
}

bool Option::value_is_optional() const {
  return type == OptionType::flag ||
         std::ranges::find(spellings, "true", &std::pair<std::string, std::string>::first) != spellings.end();
}

bool Option::takes(std::string_view word) const {
  return std::holds_alternative<bool>(resolve_plain(word)) || std::ranges::find(choices, word) != choices.end();
}

Value get(const Config& config, const Option& option) {
  Config copy = config;  // visit() hands out mutable fields
  return std::visit([](const auto& field) { return read(field); }, field_of(copy, option));
}

void set(Config& config, const Option& option, const Value& value) {
  assert(value.index() == option.default_value.index());
  std::visit([&](const auto& field) { write(field, value); }, field_of(config, option));
}

Value convert(const Option& option, const Setting& setting) {
  const Value& value = setting.value;
  const auto* whole = std::get_if<int64_t>(&value);
  const auto* number = std::get_if<double>(&value);
  switch (option.type) {
    case OptionType::text:
      if (std::holds_alternative<std::monostate>(value)) break;
      require(setting.text.find('\0') == std::string::npos, ErrorKind::config,
              "{} is \"{}\", which contains a NUL character; expected text without one", place(setting), setting.text);
      return setting.text;
    case OptionType::choice:
      if (std::holds_alternative<std::monostate>(value)) break;
      if (std::ranges::find(option.choices, setting.text) != option.choices.end()) return setting.text;
      for (const auto& [text, meaning] : option.spellings) {
        if (text == to_text(value)) return meaning;
      }
      break;
    case OptionType::integer:
      if (whole && in_range(option, *whole)) return value;
      break;
    case OptionType::number:
      if (whole && in_range(option, static_cast<double>(*whole))) return static_cast<double>(*whole);
      if (number && in_range(option, *number)) return value;
      require(!number || std::isfinite(*number), ErrorKind::config,
              "{} is {}, which is not a finite number; expected {}", place(setting), setting.text, option.expected());
      break;
    case OptionType::flag:
      if (std::holds_alternative<bool>(value)) return value;
      break;
  }
  fail(ErrorKind::config, "{} is {}, expected {}", place(setting), describe(setting), option.expected());
}

}  // namespace trireme
