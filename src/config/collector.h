#pragma once
// The visitor of declared options: it makes a list of Option, and of the places of their values, from a struct of
// options with visit(). For .cc files that keep such a struct (config/schema.cc, cloud/options.cc).

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/names.h"
#include "config/schema.h"

namespace trireme {

/// A field that holds one of a fixed set of values, by their names.
struct ChoiceField {
  std::function<std::string()> name;
  std::function<void(const std::string&)> set;  ///< sets the value that has this name
};
using Field = std::variant<std::string*, int64_t*, double*, bool*, ChoiceField>;

inline Value read(const ChoiceField& field) { return field.name(); }
template <class T>
Value read(const T* field) {
  return *field;
}
inline void write(const ChoiceField& field, const Value& value) { field.set(std::get<std::string>(value)); }
template <class T>
void write(T* field, const Value& value) {
  *field = std::get<T>(value);
}

/// Called by visit(): records every declaration and the place of its field in the visited Config.
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
  /// values: those that the option can have; empty: all. spellings: other accepted words, and what each means.
  template <HasNames E>
  void choice(const char* name, E& field, const char* help, std::initializer_list<std::type_identity_t<E>> values = {},
              std::initializer_list<std::pair<const char*, const char*>> spellings = {}) {
    ChoiceField accessor{[&field] { return std::string(name_of(field)); },
                         [&field](const std::string& to) { field = *value_named<E>(to); }};
    Option& option = add(name, std::move(accessor), help, OptionType::choice);
    for (const E value : values) option.choices.emplace_back(name_of(value));
    if (values.size() == 0) add_all<E>(option);
    for (const auto& [text, meaning] : spellings) option.spellings.emplace_back(text, meaning);
  }
  /// none: the name of "no value".
  template <HasNames E>
  void choice_or(const char* name, const char* none, std::optional<E>& field, const char* help) {
    ChoiceField accessor{[&field, none] { return std::string(field ? name_of(*field) : none); },
                         [&field](const std::string& to) { field = value_named<E>(to); }};
    Option& option = add(name, std::move(accessor), help, OptionType::choice);
    option.choices.emplace_back(none);
    add_all<E>(option);
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

 private:
  template <HasNames E>
  static void add_all(Option& option) {
    for (const Named<E>& known : Names<E>::kAll) option.choices.emplace_back(known.name);
  }
};

}  // namespace trireme
