#include "cli/flags.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/output_path.h"
#include "comm/launcher.h"
#include "config/flag_word.h"
#include "config/foreign_options.h"
#include "config/setting.h"

namespace trireme {
namespace {

/// Text that is not a number is left to the conversion, which reports it.
CLI::Validator number_that(bool (*fits)(double), const std::string& expected) {
  return CLI::Validator(
      [fits, expected](const std::string& text) {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        if (end == text.c_str() || fits(value)) return std::string();
        return fmt::format("{} given, expected a number {}", text, expected);
      },
      "", "");
}

/// The unknown words, each with what it may have meant: an action where one is required, otherwise a flag.
std::string describe_unknown(const CLI::App& app, const std::vector<std::string>& unknown) {
  const auto used = app.get_subcommands();
  const auto actions = app.get_subcommands([](const CLI::App*) { return true; });
  const bool wants_action = used.empty() && !actions.empty();
  std::vector<std::string> names, texts;
  for (const CLI::App* action : actions) {
    if (wants_action) names.push_back(action->get_name());
  }
  for (const CLI::Option* option : (used.empty() ? &app : used[0])->get_options()) {
    for (const std::string& name : option->get_lnames()) {
      if (!wants_action) names.push_back("--" + name);
    }
  }
  if (wants_action) {
    const std::string near = nearest_name(unknown[0], names);
    return fmt::format("{}{}", fmt::join(unknown, " "), near.empty() ? "" : fmt::format("; did you mean {}?", near));
  }
  bool after_flag = false;
  for (const std::string& word : unknown) {
    std::string name = word.substr(0, word.find('='));
    const bool is_flag = name.size() > 2 && name.starts_with('-');
    if (is_flag && !name.starts_with("--")) name.insert(0, "-");   // mpirun's long names have one dash
    if (!word.starts_with('-') && !texts.empty() && after_flag) {  // its value
      texts.back().insert(std::min(texts.back().find(';'), texts.back().size()), " " + word);
      after_flag = false;
      continue;
    }
    after_flag = is_flag && word.find('=') == std::string::npos;
    const std::string near = is_flag ? nearest_name(name, names) : "";
    texts.push_back(near.empty() ? word : fmt::format("{}; did you mean {}?", word, near));
  }
  if (texts.size() == 1 || std::ranges::none_of(texts, [](const std::string& text) { return text.ends_with('?'); }))
    return fmt::format("{}", fmt::join(texts, " "));
  return fmt::format("\n    {}", fmt::join(texts, "\n    "));
}

/// Replaces other programs' spellings by those of this command; `words` begin with the action, if there are actions.
/// Returns why some are refused.
std::vector<std::string> take_foreign(const CLI::App& app, std::vector<std::string>& words) {
  if (asks_help(words)) return {};
  const auto actions = app.get_subcommands([](const CLI::App*) { return true; });
  const auto action = std::ranges::find_if(
      actions, [&](const CLI::App* candidate) { return !words.empty() && candidate->get_name() == words[0]; });
  const CLI::App& chosen = action == actions.end() ? app : **action;
  std::string command = app.get_name();
  if (command.starts_with("trireme ")) command.erase(0, 8);
  if (&chosen != &app) command += " " + chosen.get_name();
  const auto knows = [&](const std::string& name) { return chosen.get_option_no_throw(name) != nullptr; };
  return take_foreign_options(command, knows, words);
}

/// CLI11 reads -1, and any number that is too large, as the largest number.
const CLI::Validator& whole_number() {
  static const CLI::Validator validator(
      [](const std::string& text) {
        const bool digits = !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
        uint64_t value = 0;
        const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
        if (digits && result.ec == std::errc()) return std::string();
        return fmt::format("{} given, expected a whole number from 0 to {}", text, UINT64_MAX);
      },
      "", "");
  return validator;
}

/// CLI11 reads an empty text as 0, and a number that is too large as the largest number or as infinity.
template <class Number>
const CLI::Validator& number_of_its_type() {
  static const CLI::Validator validator(
      [](const std::string& text) {
        if (text.empty()) return std::string("the value is empty, expected a number");
        if constexpr (std::is_floating_point_v<Number>) {
          char* end = nullptr;
          const double value = std::strtod(text.c_str(), &end);
          if (end == text.c_str() || *end != 0) return fmt::format("{} given, expected a number", text);
          const bool finite = std::fabs(value) <= static_cast<double>(std::numeric_limits<Number>::max());
          return finite ? std::string() : fmt::format("{} given, expected a finite number", text);
        } else {
          int64_t value = 0;
          const size_t sign = text.starts_with('+');
          const auto result = std::from_chars(text.data() + sign, text.data() + text.size(), value);
          using Limits = std::numeric_limits<Number>;
          if (result.ec == std::errc::invalid_argument || result.ptr != text.data() + text.size())
            return fmt::format("{} given, expected a whole number", text);
          const bool fits = result.ec == std::errc() && value >= Limits::min() && value <= Limits::max();
          return fits ? std::string()
                      : fmt::format("{} given, expected a whole number from {} to {}", text, Limits::min(),
                                    Limits::max());
        }
      },
      "", "");
  return validator;
}

template <class T>
struct NumberIn {
  using type = T;
};
template <class T>
struct NumberIn<std::optional<T>> {
  using type = T;
};

/// CLI11 takes any word as the value of a flag, also the next flag.
void require_values(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* chosen = &app;
  const auto option_of = [&](const std::string& word) -> const CLI::Option* {
    const bool is_name = word.starts_with("--") && word.size() > 2;
    return is_name ? chosen->get_option_no_throw(word.substr(0, word.find('='))) : nullptr;
  };
  for (size_t i = 0; i + 1 < words.size() && words[i] != "--"; ++i) {
    const auto actions = chosen->get_subcommands([&](const CLI::App* one) { return one->get_name() == words[i]; });
    if (!actions.empty()) chosen = actions[0];
    const CLI::Option* const option = option_of(words[i]);
    if (option == nullptr || words[i].find('=') != std::string::npos || option->get_items_expected_min() == 0) continue;
    require(option_of(words[i + 1]) == nullptr, ErrorKind::usage,
            "{0}: {1} has no value: the flag {2} follows it (is a shell variable not set?); {1}={2} takes it as the "
            "value; `{0} --help` explains the flags",
            app.get_name(), words[i], words[i + 1]);
    ++i;  // the value
  }
}

/// Writes `--name=` as two words, the second one empty: otherwise CLI11 uses the next word as the value.
std::vector<std::string> with_empty_values(const CLI::App& app, std::vector<std::string> words) {
  std::vector<std::string> out;
  const CLI::App* chosen = &app;
  for (std::string& word : words) {
    const auto actions = chosen->get_subcommands([&](const CLI::App* one) { return one->get_name() == word; });
    if (!actions.empty()) chosen = actions[0];
    const bool empty = word.starts_with("--") && word.size() > 3 && word.find('=') == word.size() - 1;
    if (!empty) {
      out.push_back(std::move(word));
      continue;
    }
    word.pop_back();
    const CLI::Option* const option = chosen->get_option_no_throw(word);
    require(option == nullptr || option->get_items_expected_max() > 0, ErrorKind::usage,
            "{}: {}= has no value; give {} without '=', or remove it; `{} --help` explains the flags", app.get_name(),
            word, word, app.get_name());
    out.push_back(option == nullptr ? word + "=" : word);
    if (option != nullptr) out.emplace_back();
  }
  return out;
}

}  // namespace

void require_output(const char* flag, const std::string& path) {
  if (path.empty()) return;
  const std::string why = why_no_output(path);
  require(why.empty(), ErrorKind::usage, "{}: {}", flag, why);
}

bool asks_help(const std::vector<std::string>& words) {
  return std::ranges::any_of(words, [](const std::string& word) { return word == "--help" || word == "-h"; });
}

Flag Flag::required() const {
  option_->required();
  return *this;
}
Flag Flag::show_default() const {
  option_->capture_default_str();
  return *this;
}
Flag Flag::positive() const {
  option_->check(number_that([](double v) { return v > 0; }, "above 0"));
  facts_->limits = "above 0";
  return *this;
}
Flag Flag::not_negative() const {
  option_->check(number_that([](double v) { return v >= 0; }, "0 or more"));
  facts_->limits = "0 or more";
  return *this;
}
Flag Flag::not_empty() const {
  option_->check(CLI::Validator(
      [](const std::string& text) {
        return text.empty() ? std::string("the value is empty; is a shell variable not set?") : std::string();
      },
      "", ""));
  return *this;
}
Flag Flag::output_file() const {
  option_->check(CLI::Validator(
      [](const std::string& text) {
        // Ranks that write nothing may be on hosts without the folder.
        return detect_launcher().rank > 0 ? std::string() : why_no_output(text);
      },
      "", ""));
  return *this;
}
Flag Flag::in_range(int64_t lowest, int64_t highest) const {
  option_->check(CLI::Range(lowest, highest));
  facts_->limits = fmt::format("{} to {}", lowest, highest);
  return *this;
}
Flag Flag::between(double lowest, double highest) const {
  facts_->limits = fmt::format("{} to {}", lowest, highest);
  option_->check(CLI::Validator(
      [lowest, highest, limits = facts_->limits](const std::string& text) {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        if (end == text.c_str() || (value >= lowest && value <= highest)) return std::string();
        return fmt::format("{} given, expected a number from {}", text, limits);
      },
      "", ""));
  return *this;
}
Flag Flag::one_of(std::vector<std::string> values) const {
  facts_->kind = ValueKind::choice;
  facts_->choices = values;
  option_->check(CLI::IsMember(std::move(values)));
  return *this;
}
Flag Flag::separated_by(char separator) const {
  option_->delimiter(separator);
  return *this;
}
Flag Flag::one_value() const {
  option_->allow_extra_args(false);
  return *this;
}
Flag Flag::optional_value(const std::string& alone, const std::string& shown) const {
  option_->expected(0, 1)->default_str(alone);
  option_->option_text(shown);
  facts_->value_is_optional = true;
  return *this;
}

Flags::Flags(const std::string& name, const std::string& purpose)
    : owned_(std::make_unique<CLI::App>(purpose, name)), app_(owned_.get()) {}
Flags::Flags(CLI::App* action) : app_(action) {}
Flags::~Flags() = default;

template <class T>
Flag Flags::add(const std::string& names, T& value, const std::string& help) {
  CLI::Option* const option = app_->add_option(names, value, help);
  if (option->get_items_expected_max() == 1) option->take_last();  // as `train` and the programs that it replaces do
  using Number = typename NumberIn<T>::type;
  if constexpr (std::is_same_v<T, uint64_t>) {
    option->check(whole_number());
  } else if constexpr (std::is_arithmetic_v<Number>) {
    option->check(number_of_its_type<Number>());
  }
  if constexpr (std::is_arithmetic_v<Number>) facts_[option].kind = ValueKind::number;
  return {option, facts_[option]};
}
template Flag Flags::add(const std::string&, std::string&, const std::string&);
template Flag Flags::add(const std::string&, int&, const std::string&);
template Flag Flags::add(const std::string&, int64_t&, const std::string&);
template Flag Flags::add(const std::string&, uint64_t&, const std::string&);
template Flag Flags::add(const std::string&, float&, const std::string&);
template Flag Flags::add(const std::string&, double&, const std::string&);
template Flag Flags::add(const std::string&, std::vector<std::string>&, const std::string&);
template Flag Flags::add(const std::string&, std::optional<std::string>&, const std::string&);
template Flag Flags::add(const std::string&, std::optional<int>&, const std::string&);
template Flag Flags::add(const std::string&, std::optional<int64_t>&, const std::string&);
template Flag Flags::add(const std::string&, std::optional<double>&, const std::string&);

Flag Flags::add_choice(const std::string& names, const std::string& present, std::vector<std::string> allowed,
                       const std::string& help, const std::function<void(const std::string&)>& set) {
  CLI::Option* const option = app_->add_option_function<std::string>(names, set, help);
  option->take_last()->default_str(present);
  return Flag(option, facts_[option]).one_of(std::move(allowed));
}

Flag Flags::add_switch(const std::string& names, bool& value, const std::string& help) {
  CLI::Option* const option = app_->add_flag(names, value, help);
  facts_[option].kind = ValueKind::none;
  return {option, facts_[option]};
}

Flags& Flags::add_action(const std::string& name, const std::string& purpose) {
  app_->require_subcommand(1);
  actions_.push_back(std::unique_ptr<Flags>(new Flags(app_->add_subcommand(name, purpose))));
  return *actions_.back();
}

void Flags::set_footer(const std::string& text) { app_->footer(text); }

CommandShape Flags::shape() const {
  CommandShape shape{.name = app_->get_name(), .purpose = app_->get_description(), .notes = app_->get_footer()};
  shape.takes_command = takes_command_;
  for (const CLI::Option* option : app_->get_options()) {
    if (option == app_->get_help_ptr()) continue;
    const auto facts = facts_.find(option);
    FlagShape flag = facts == facts_.end() ? FlagShape{} : facts->second;
    for (const std::string& name : option->get_snames()) flag.names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) flag.names.push_back("--" + name);
    if (flag.names.empty()) flag.names = {option->get_name(true)};
    flag.help = option->get_description();
    flag.fallback = flag.kind == ValueKind::none || flag.value_is_optional ? "" : option->get_default_str();
    flag.required = option->get_required();
    flag.repeats = option->get_items_expected_max() > 1;
    shape.flags.push_back(std::move(flag));
  }
  for (const auto& action : actions_) shape.actions.push_back(action->shape());
  return shape;
}

namespace {
thread_local std::optional<CommandShape>* wanted_shape = nullptr;  ///< of shape_of(), while it calls a command
}

CommandShape shape_of(int (*command)(std::vector<std::string> arguments)) {
  std::optional<CommandShape> shape;
  wanted_shape = &shape;
  command({"--help"});
  wanted_shape = nullptr;
  assert(shape);
  return std::move(*shape);
}

std::optional<int> Flags::parse(std::vector<std::string> arguments) {
  if (wanted_shape) {
    *wanted_shape = shape();
    return 0;
  }
  std::vector<std::string> problems = take_foreign(*app_, arguments);
  for (std::string& argument : arguments) {  // '-' equals '_' in flags
    if (!argument.starts_with("--")) continue;
    std::replace(argument.begin() + 2, std::find(argument.begin(), argument.end(), '='), '_', '-');
  }
  require_values(*app_, arguments);
  arguments = with_empty_values(*app_, std::move(arguments));
  std::ranges::reverse(arguments);  // CLI11 reads a vector from its end
  try {
    app_->parse(std::move(arguments));
    require_none(problems);
    return std::nullopt;
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app_->help());  // of the action if there is one
    return 0;
  } catch (const CLI::ParseError& e) {
    // Unknown words are reported first: one may be a misspelling of a missing flag.
    const std::vector<std::string> unknown = app_->remaining(true);
    const std::string what = unknown.empty() ? e.what() : "not expected: " + describe_unknown(*app_, unknown);
    const auto actions = app_->get_subcommands();
    const std::string name = app_->get_name() + (actions.empty() ? "" : " " + actions[0]->get_name());
    const std::string text = fmt::format("{}: {}; `{} --help` explains the flags", name, what, name);
    if (unknown.empty()) require_none(problems);  // a missing flag may be one of the refused
    if (!problems.empty()) {
      problems.push_back(text);
      require_none(problems);
    }
    fail(ErrorKind::usage, "{}", text);
  }
}

size_t Flags::count(const std::string& name) const { return app_->count(name); }
bool Flags::chosen() const { return app_->parsed(); }

}  // namespace trireme
