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

[[noreturn]] void fail_value(const Option& option, const Setting& setting) {
  fail(ErrorKind::config, "{} is {}, expected {}", place(setting), describe(setting), option.expected());
}

template <class T>
Value in_range(const Option& option, const Setting& setting, T value) {
  const T minimum = std::get<T>(option.minimum), maximum = std::get<T>(option.maximum);
  if (value < minimum || value > maximum) fail_value(option, setting);
  return value;
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
  if (std::holds_alternative<std::monostate>(value)) fail_value(option, setting);
  switch (option.type) {
    case OptionType::text:
      return setting.text;
    case OptionType::choice:
      for (const std::string& choice : option.choices) {
        if (choice == setting.text) return setting.text;
      }
      for (const auto& [text, meaning] : option.spellings) {
        if (text == to_text(value)) return meaning;
      }
      break;
    case OptionType::integer:
      if (const auto* whole = std::get_if<int64_t>(&value)) return in_range(option, setting, *whole);
      break;
    case OptionType::number: {
      if (const auto* whole = std::get_if<int64_t>(&value)) {
        return in_range(option, setting, static_cast<double>(*whole));
      }
      const auto* number = std::get_if<double>(&value);
      if (!number) break;
      require(std::isfinite(*number), ErrorKind::config, "{} is {}, which is not a finite number; expected {}",
              place(setting), setting.text, option.expected());
      return in_range(option, setting, *number);
    }
    case OptionType::flag:
      if (const auto* flag = std::get_if<bool>(&value)) return *flag;
      break;
  }
  fail_value(option, setting);
}

}  // namespace trireme
