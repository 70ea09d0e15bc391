#include "config/schema.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <type_traits>
#include <utility>

#include "base/error.h"

namespace trireme {
namespace {

/// A field that holds one of a fixed set of values, by their names.
struct ChoiceField {
  std::function<std::string()> name;
  std::function<void(const std::string&)> set;  ///< to the value of one of the names
};
using Field = std::variant<std::string*, int64_t*, double*, bool*, ChoiceField>;

Value read(const ChoiceField& field) { return field.name(); }
template <class T>
Value read(const T* field) {
  return *field;
}
void write(const ChoiceField& field, const Value& value) { field.set(std::get<std::string>(value)); }
template <class T>
void write(T* field, const Value& value) {
  *field = std::get<T>(value);
}

/// Called by visit(): writes down every declaration, and where its field lies in the visited Config.
struct Collector {
  std::vector<OptionGroup> groups;
  std::vector<Option> options;
  std::vector<Field> fields;

  template <class Group>
  void group(const char* name, const char* help, Group& members) {
    groups.push_back({name, help});
    members.visit(*this);
  }
  Option& add(const char* name, Field field, const char* help, OptionType type) {
    Option option;
    option.group = groups.back().name;
    option.name = option.group + "." + name;
    option.help = help;
    option.type = type;
    option.default_value = std::visit([](const auto& f) { return read(f); }, field);
    option.index = options.size();
    fields.push_back(std::move(field));
    return options.emplace_back(std::move(option));
  }
  void text(const char* name, std::string& field, const char* help) { add(name, &field, help, OptionType::text); }
  void flag(const char* name, bool& field, const char* help) { add(name, &field, help, OptionType::flag); }
  template <class E>
  void choice(const char* name, E& field, const char* help,
              std::initializer_list<std::pair<const char*, std::type_identity_t<E>>> choices,
              std::initializer_list<std::pair<const char*, const char*>> spellings = {}) {
    const std::vector<std::pair<std::string, E>> names(choices.begin(), choices.end());
    ChoiceField accessor{
        [&field, names] { return std::ranges::find(names, field, &std::pair<std::string, E>::second)->first; },
        [&field, names](const std::string& to) {
          field = std::ranges::find(names, to, &std::pair<std::string, E>::first)->second;
        }};
    Option& option = add(name, std::move(accessor), help, OptionType::choice);
    for (const auto& [text, value] : names) option.choices.push_back(text);
    for (const auto& [text, meaning] : spellings) option.spellings.emplace_back(text, meaning);
  }
  void integer(const char* name, int64_t& field, const char* help, int64_t minimum, int64_t maximum) {
    Option& option = add(name, &field, help, OptionType::integer);
    option.minimum = minimum;
    option.maximum = maximum;
  }
  void number(const char* name, double& field, const char* help, double minimum, double maximum) {
    Option& option = add(name, &field, help, OptionType::number);
    option.minimum = minimum;
    option.maximum = maximum;
  }
};

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

std::string_view overruled_by(const Config& config, const Option& option) {
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

bool Option::stands_alone() const {
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
