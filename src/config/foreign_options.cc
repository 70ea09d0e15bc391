#include "config/foreign_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "config/flag_word.h"
#include "config/setting.h"

namespace trireme {
namespace {

/// Whether a word after an option is its value: "-1" is a value, "-H" and "--model" are not.
bool is_value(const std::string& word) {
  return !word.starts_with('-') || word.size() == 1 || std::isdigit(static_cast<unsigned char>(word[1])) != 0;
}

/// An option as it was typed.
struct Typed : FlagWord {
  bool value_apart = false;  ///< the value is the next word
  std::string meant;         ///< the value in lower case; "true" without one
};

Typed typed_at(const std::vector<std::string>& words, size_t i) {
  Typed typed{flag_word(words[i]), false, {}};
  typed.value_apart = !typed.value && i + 1 < words.size() && is_value(words[i + 1]);
  if (typed.value_apart) typed.value = words[i + 1];
  typed.meant = typed.value ? lower_case(*typed.value) : "true";
  return typed;
}

bool is_no(std::string_view word) { return word == "false" || word == "0" || word == "no"; }
bool is_truth(std::string_view word) { return is_no(word) || word == "true" || word == "1" || word == "yes"; }

/// Empty if the value is harmless.
std::string refusal(const ForeignOption& option, const Typed& typed) {
  if (option.harmless != nullptr && lists_word(option.harmless, typed.meant, '|')) return {};
  const std::string shown = typed.value.value_or(option.harmless != nullptr ? "True" : "");
  return fmt::format("{}{}{} is not supported; instead: {}", typed.name, shown.empty() ? "" : " ", shown, option.text);
}

/// The option of this name, in canonical form, and this value, in lower case.
const ForeignOption* look_up(std::string_view command, std::string_view name, std::string_view value) {
  const ForeignOption* of_any_value = nullptr;
  for (const ForeignOption& option : foreign_options()) {
    if (!lists_word(option.commands, command, '|')) continue;
    const size_t equals = option.name.find('=');
    if (canonical(option.name.substr(0, equals)) != name) continue;
    if (equals == std::string_view::npos) {
      of_any_value = &option;
    } else if (option.name.substr(equals + 1) == value) {
      return &option;
    }
  }
  return of_any_value;
}

}  // namespace

std::vector<std::string> foreign_names(std::string_view command) {
  std::vector<std::string> names;
  for (const ForeignOption& option : foreign_options()) {
    const std::string_view name = option.name.substr(0, option.name.find('='));
    if (name.starts_with("--") && lists_word(option.commands, command, '|')) names.push_back(canonical(name.substr(2)));
  }
  return names;
}

const ForeignOption* find_foreign(std::string_view command, std::string_view name, std::string_view value) {
  return look_up(command, canonical(name), lower_case(value));
}

std::vector<std::string> take_foreign_options(std::string_view command,
                                              const std::function<bool(const std::string& name)>& knows,
                                              std::vector<std::string>& words) {
  std::vector<std::string> rest, refusals;
  for (size_t i = 0; i < words.size(); ++i) {
    const Typed typed = typed_at(words, i);
    const ForeignOption* option = is_value(words[i]) ? nullptr : look_up(command, typed.name, typed.meant);
    const bool of_one_value = option != nullptr && option->name.find('=') != std::string_view::npos;
    if (option == nullptr || (!of_one_value && knows(typed.name))) {
      rest.push_back(words[i]);
      continue;
    }
    if (option->kind == ForeignOption::Kind::same && (of_one_value || option->is_switch)) {
      if (!is_no(typed.meant) || of_one_value) rest.emplace_back(option->text);
    } else if (option->kind == ForeignOption::Kind::same) {
      rest.push_back(words[i].replace(0, typed.name.size(), option->text));
      continue;  // its value stays in place
    } else if (option->kind == ForeignOption::Kind::elsewhere) {
      if (std::string why = refusal(*option, typed); !why.empty()) refusals.push_back(std::move(why));
    } else {
      log::info("{} has no effect here{}{}", typed.name, *option->text == '\0' ? "" : ": ", option->text);
    }
    if (typed.value_apart && (!option->is_switch || is_truth(typed.meant))) ++i;
  }
  words = std::move(rest);
  return refusals;
}

std::string foreign_options_help(std::string_view command) {
  constexpr size_t kWidth = 100;
  std::string ignored, refused;
  size_t column = kWidth;
  for (const ForeignOption& option : foreign_options()) {
    if (!lists_word(option.commands, command, '|')) continue;
    if (option.kind == ForeignOption::Kind::elsewhere)
      refused += fmt::format("  {:<26} {}\n", option.name, option.text);
    if (option.kind != ForeignOption::Kind::no_effect) continue;
    if (column + option.name.size() + 1 > kWidth) {
      ignored += ignored.empty() ? " " : "\n ";
      column = 1;
    }
    ignored += fmt::format(" {}", option.name);
    column += option.name.size() + 1;
  }
  std::string text;
  if (!ignored.empty()) text += "Accepted without effect here:\n" + ignored + "\n";
  if (!refused.empty()) text += "Refused, with what to use instead:\n" + refused;
  return text;
}

}  // namespace trireme
