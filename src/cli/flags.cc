#include "cli/flags.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/error.h"
#include "base/output_path.h"
#include "base/text.h"
#include "comm/launcher.h"
#include "config/document.h"
#include "config/flag_word.h"
#include "config/foreign_options.h"
#include "config/setting.h"

namespace trireme {

struct DeclaredFlag {
  FlagShape shape;
  std::string type;              ///< in --help: "INT:INT in [1 - 9]"
  std::string shown;             ///< in --help, instead of the type and the default; may be empty
  std::string alone;             ///< the value if none is given
  std::string ending;            ///< of the words that a list of files takes
  std::string needs;             ///< what a missing value is, in the errors of commands with a configuration
  std::string expected;          ///< the same for a wrong one
  std::vector<std::string> off;  ///< those of the names that switch off
  char separator = 0;
  bool one_value = false, once = false;
  std::vector<std::function<std::string(const std::string& value)>> checks;  ///< "", why not, or "is ..."
  std::string present;                                                       ///< value of the variable when declared
  std::function<void(const std::vector<std::string>& values)> set;
  std::vector<std::string> given;

  bool is_switch() const { return shape.kind == ValueKind::none; }
  /// In messages: the first long name.
  const std::string& name() const {
    const auto found = std::ranges::find_if(shape.names, [](const auto& one) { return one.starts_with("--"); });
    return found == shape.names.end() ? shape.names[0] : *found;
  }
};

namespace {

/// Why the text is not a whole number of this type; empty: value is set.
template <class Number>
std::string read_whole(const std::string& text, Number& value) {
  using Limits = std::numeric_limits<Number>;
  const auto given = [&](const std::string& expected) {
    return fmt::format("{} given, expected a whole number{}", text, expected);
  };
  const std::string range = fmt::format(" from {} to {}", Limits::min(), Limits::max());
  if (std::is_signed_v<Number> && text.empty()) return "the value is empty, expected a number";
  const size_t sign = std::is_signed_v<Number> && text.starts_with('+');
  const auto result = std::from_chars(text.data() + sign, text.data() + text.size(), value);
  const bool whole = result.ec != std::errc::invalid_argument && result.ptr == text.data() + text.size();
  if (!whole) return given(std::is_signed_v<Number> ? "" : range);
  return result.ec == std::errc() ? "" : given(range);
}

template <class Number>
std::string read_real(const std::string& text, Number& value) {
  if (text.empty()) return "the value is empty, expected a number";
  char* end = nullptr;
  const double read = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || *end != 0) return fmt::format("{} given, expected a number", text);
  const bool finite = std::fabs(read) <= static_cast<double>(std::numeric_limits<Number>::max());
  if (!finite) return fmt::format("{} given, expected a finite number", text);
  value = static_cast<Number>(read);
  return "";
}

std::string read_value(const std::string& text, std::string& value) {
  value = text;
  return "";
}
template <class Number>
requires std::is_arithmetic_v<Number> std::string read_value(const std::string& text, Number& value) {
  if constexpr (std::is_floating_point_v<Number>) {
    return read_real(text, value);
  } else {
    return read_whole(text, value);
  }
}

template <class T>
struct ValueIn {
  using type = T;
};
template <class T>
struct ValueIn<std::optional<T>> {
  using type = T;
};
template <class T>
struct ValueIn<std::vector<T>> {
  using type = T;
};

template <class T>
const char* type_name() {
  return std::is_floating_point_v<T> ? "FLOAT"
         : std::is_unsigned_v<T>     ? "UINT"
         : std::is_integral_v<T>     ? "INT"
                                     : "TEXT";
}

std::string shown_value(const std::string& value) { return value; }
std::string shown_value(const std::vector<std::string>& values) { return fmt::format("[{}]", fmt::join(values, ",")); }
template <class Number>
requires std::is_arithmetic_v<Number> std::string shown_value(Number value) {
  if constexpr (std::is_floating_point_v<Number>) {
    return fmt::format("{:g}", value);
  } else {
    return std::to_string(value);
  }
}
template <class T>
std::string shown_value(const std::optional<T>& value) {
  return value ? shown_value(*value) : "";
}

/// Of a word such as "true", "0", "Yes", "on", "f".
std::optional<bool> truth_of(const std::string& text) {
  const std::string word = lower_case(text);
  for (const char* yes : {"true", "1", "yes", "y", "t", "on"}) {
    if (word == yes) return true;
  }
  for (const char* no : {"false", "0", "no", "n", "f", "off"}) {
    if (word == no) return false;
  }
  return std::nullopt;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(separator, at), text.size());
    if (end > at || text.find(separator) == std::string::npos) parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

/// What stands before the help of a flag.
std::string label_of(const DeclaredFlag& flag) {
  std::string label;
  for (const std::string& name : flag.shape.names) {
    label += label.empty() ? name : "," + name;
    if (std::ranges::find(flag.off, name) != flag.off.end()) label += "{false}";
  }
  if (!flag.shown.empty()) return label + " " + flag.shown;
  if (flag.is_switch()) return label;
  label += " " + flag.type;
  if (!flag.shape.fallback.empty()) label += "=" + flag.shape.fallback;
  if (flag.shape.repeats) label += " ...";
  if (flag.shape.required) label += " REQUIRED";
  return label;
}

std::string label_of(const FlagShape& flag) {
  std::string label = fmt::format("{}", fmt::join(flag.names, ","));
  if (flag.kind == ValueKind::choice) label += fmt::format(" {{{}}}", fmt::join(flag.choices, ","));
  if (flag.kind == ValueKind::text && !flag.is_positional()) label += " TEXT";
  return label + (flag.repeats ? " ..." : "");
}

std::string help_line(const std::string& label, const std::string& help) {
  constexpr size_t kColumn = 30;
  std::string line = fmt::format("{:<{}}", "  " + label, kColumn);
  if (!help.empty() && label.size() + 2 >= kColumn) line += "\n" + std::string(kColumn, ' ');
  for (const char c : help) line += c == '\n' ? "\n" + std::string(kColumn, ' ') : std::string(1, c);
  return line + "\n";
}

bool asks_help(const std::vector<std::string>& words) {
  return std::ranges::any_of(words, [](const std::string& word) { return word == "--help" || word == "-h"; });
}

/// "time, cost or memory"
std::string listed(const std::vector<std::string>& values) {
  if (values.size() < 2) return fmt::format("{}", fmt::join(values, ""));
  return fmt::format("{} or {}", fmt::join(values.begin(), values.end() - 1, ", "), values.back());
}

}  // namespace

void require_output(const char* flag, const std::string& path) {
  if (path.empty()) return;
  const std::string why = why_no_output(path);
  require(why.empty(), ErrorKind::usage, "{}: {}", flag, why);
}

Flag Flag::check(std::function<std::string(const std::string& value)> reason_of) const {
  declared_->checks.push_back(std::move(reason_of));
  return *this;
}
/// Text that is not a number is left to the check of its type.
Flag Flag::number_where(const std::string& expected, std::function<bool(double value)> fits) const {
  return check([expected, fits = std::move(fits)](const std::string& text) {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    return end == text.c_str() || fits(value) ? "" : fmt::format("{} given, expected {}", text, expected);
  });
}

Flag Flag::required() const {
  declared_->shape.required = true;
  return *this;
}
Flag Flag::show_default() const {
  declared_->shape.fallback = declared_->present;
  return *this;
}
Flag Flag::positive() const {
  declared_->shape.limits = "above 0";
  return number_where("a number above 0", [](double value) { return value > 0; });
}
Flag Flag::not_negative() const {
  declared_->shape.limits = "0 or more";
  return number_where("a number 0 or more", [](double value) { return value >= 0; });
}
Flag Flag::between(double lowest, double highest) const {
  declared_->shape.limits = fmt::format("{} to {}", lowest, highest);
  return number_where("a number from " + declared_->shape.limits,
                      [=](double value) { return value >= lowest && value <= highest; });
}
Flag Flag::positive_up_to(double highest) const {
  declared_->expected = fmt::format("a positive number up to {:.0f}", highest);
  return number_where(declared_->expected, [=](double value) { return value > 0 && value <= highest; });
}
Flag Flag::not_empty() const {
  return check([](const std::string& text) {
    return text.empty() ? std::string("the value is empty; is a shell variable not set?") : std::string();
  });
}
Flag Flag::output_file() const {
  // Ranks that write nothing may be on hosts without the folder.
  return check(
      [](const std::string& text) { return detect_launcher().rank > 0 ? std::string() : why_no_output(text); });
}
Flag Flag::in_range(int64_t lowest, int64_t highest) const {
  declared_->shape.limits = fmt::format("{} to {}", lowest, highest);
  declared_->type += fmt::format(":INT in [{} - {}]", lowest, highest);
  declared_->expected = fmt::format("a whole number from {}", declared_->shape.limits);
  return check([=](const std::string& text) {
    int64_t value = 0;
    return read_whole(text, value).empty() && value >= lowest && value <= highest
               ? ""
               : fmt::format("Value {} not in range {} to {}", text, lowest, highest);
  });
}
Flag Flag::one_of(std::vector<std::string> values) const {
  declared_->shape.kind = ValueKind::choice;
  declared_->type += fmt::format(":{{{}}}", fmt::join(values, ","));
  declared_->expected = listed(values);
  declared_->shape.choices = values;
  return check([values](const std::string& text) {
    const bool known = std::ranges::find(values, text) != values.end();
    return known ? "" : fmt::format("{} not in {{{}}}", text, fmt::join(values, ","));
  });
}
Flag Flag::separated_by(char separator) const {
  declared_->separator = separator;
  return *this;
}
Flag Flag::one_value() const {
  declared_->one_value = true;
  return *this;
}
Flag Flag::files(const std::string& ending) const {
  declared_->ending = ending;
  return *this;
}
Flag Flag::once() const {
  declared_->once = true;
  return *this;
}
Flag Flag::needs(const std::string& what) const {
  declared_->needs = what;
  return *this;
}
Flag Flag::optional_value(const std::string& alone, const std::string& shown) const {
  declared_->shape.value_is_optional = true;
  declared_->alone = alone;
  declared_->shown = shown;
  return *this;
}

Flags::Flags(CommandLine line, std::string name, std::string purpose)
    : line_(std::move(line)), name_(std::move(name)), purpose_(std::move(purpose)) {}
Flags::~Flags() = default;

DeclaredFlag& Flags::declare(const std::string& names, const std::string& help) {
  declared_.push_back(std::make_unique<DeclaredFlag>());
  DeclaredFlag& flag = *declared_.back();
  flag.shape.help = help;
  std::vector<std::string> longer;
  for (std::string name : split(names, ',')) {
    if (name.starts_with('!')) flag.off.push_back(name = name.substr(1));
    (name.starts_with("--") ? longer : flag.shape.names).push_back(name);
  }
  flag.shape.names.insert(flag.shape.names.end(), longer.begin(), longer.end());
  return flag;
}

template <class T>
Flag Flags::add(const std::string& names, T& value, const std::string& help) {
  using One = typename ValueIn<T>::type;
  DeclaredFlag& flag = declare(names, help);
  flag.type = type_name<One>();
  flag.present = shown_value(value);
  if constexpr (std::is_arithmetic_v<One>) {
    flag.shape.kind = ValueKind::number;
    flag.checks.emplace_back([](const std::string& text) {
      One read{};
      return read_value(text, read);
    });
  }
  if constexpr (std::is_same_v<T, std::vector<One>>) {
    flag.shape.repeats = true;
    flag.set = [&value](const std::vector<std::string>& values) { value = values; };
  } else {
    flag.set = [&value](const std::vector<std::string>& values) {  // the last one, as in programs that it replaces
      One read{};
      read_value(values.back(), read);
      value = std::move(read);
    };
  }
  return Flag(flag);
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
                       const std::string& help, std::function<void(const std::string&)> set) {
  DeclaredFlag& flag = declare(names, help);
  flag.type = type_name<std::string>();
  flag.present = present;
  flag.set = [set = std::move(set)](const std::vector<std::string>& values) { set(values.back()); };
  return Flag(flag).one_of(std::move(allowed)).show_default();
}

Flag Flags::add_switch(const std::string& names, bool& value, const std::string& help) {
  DeclaredFlag& flag = declare(names, help);
  flag.shape.kind = ValueKind::none;
  flag.set = [&value](const std::vector<std::string>& values) { value = values.back() == "true"; };
  return Flag(flag);
}

Flag Flags::add_truth(const std::string& names, std::optional<bool> present, std::function<void(bool)> set,
                      const std::string& help) {
  DeclaredFlag& flag = declare(names, help);
  flag.checks.emplace_back([takes_none = !present](const std::string& text) {
    const bool fits = truth_of(text) || (takes_none && (text.empty() || lower_case(text) == "none"));
    return fits ? "" : fmt::format("is \"{}\", expected True or False", text);
  });
  flag.set = [set = std::move(set)](const std::vector<std::string>& values) {
    if (const auto value = truth_of(values.back())) set(*value);
  };
  return Flag(flag).optional_value(
      "True", present ? fmt::format("[True|False]={}", *present ? "True" : "False") : "[True|False]");
}

Flags& Flags::add_action(const std::string& name, const std::string& purpose) {
  actions_.push_back(std::make_unique<Flags>(name, purpose));
  actions_.back()->footer_ = footer_;
  return *actions_.back();
}

void Flags::add_command(const std::string& name, std::function<int(CommandLine)> run) {
  commands_.emplace_back(name, std::move(run));
}

void Flags::add_configuration(ConfigWords& words, OptionsInHelp help) {
  configuration_ = &words;
  options_in_help_ = help;
}

void Flags::add_options(std::vector<std::string>& words, bool (*wanted)(std::string_view name),
                        std::function<std::string(const std::string& name)> why_not) {
  options_ = &words;
  wanted_ = wanted;
  why_not_ = std::move(why_not);
}

DeclaredFlag* Flags::find(std::string_view name) {
  for (const auto& flag : declared_) {
    if (!flag->shape.is_positional() && std::ranges::find(flag->shape.names, name) != flag->shape.names.end())
      return flag.get();
  }
  return nullptr;
}

const OptionFlag* Flags::find_option_flag(std::string_view name) const {
  for (const std::span<const OptionFlag> flags : option_flags_) {
    for (const OptionFlag& flag : flags) {
      if (name == flag.flag) return &flag;
    }
  }
  return nullptr;
}

size_t Flags::count(const std::string& name) const {
  const DeclaredFlag* const flag = const_cast<Flags*>(this)->find(name);
  return flag == nullptr ? 0 : flag->given.size();
}

CommandShape Flags::shape() const {
  CommandShape shape{.name = name_, .purpose = purpose_, .notes = footer_};
  shape.takes_command = completes_command_;
  if (configuration_) shape.flags = file_flags();
  for (const auto& flag : declared_) shape.flags.push_back(flag->shape);
  for (const std::span<const OptionFlag> flags : option_flags_) {
    for (const OptionFlag& flag : flags) shape.flags.push_back(shape_of(flag));
  }
  if (configuration_ || options_) shape.groups = option_groups(wanted_);
  for (const auto& action : actions_) shape.actions.push_back(action->shape());
  for (const auto& [name, run] : commands_) shape.actions.push_back(shape_of(name, run));
  return shape;
}

CommandShape shape_of(const std::string& name, const std::function<int(CommandLine)>& command) {
  CommandShape shape;
  CommandLine line;
  line.shape = &shape;
  command(line);
  shape.name = name;
  return shape;
}

std::string Flags::help() const {
  std::string usage = usage_;
  for (size_t at = 0; (at = usage.find('\n', at)) != std::string::npos; ++at) usage.insert(at + 1, "       ");
  constexpr size_t kWidth = 118;
  std::string text = usage.empty() ? (purpose_.empty() ? "" : purpose_ + "\n") + "Usage: " + name_ + " [OPTIONS]"
                                   : fmt::format("usage: {}\n\n{}\n", usage, wrapped(purpose_, kWidth, 0));
  std::string positional, flags = help_line("-h,--help", "Print this help message and exit");
  for (const std::span<const OptionFlag> own : option_flags_) {
    for (const OptionFlag& flag : own)
      flags += help_line(std::string(flag.flag) + (*flag.value == '\0' ? "" : " ") + flag.value, flag.help);
  }
  for (const auto& flag : declared_) {
    (flag->shape.is_positional() ? positional : flags) += help_line(label_of(*flag), flag->shape.help);
    if (!flag->shape.is_positional() || !usage.empty()) continue;
    const std::string name = flag->shape.names[0] + (flag->shape.repeats ? "..." : "");
    text += flag->shape.required ? " " + name : fmt::format(" [{}]", name);
  }
  if (configuration_) {
    for (const FlagShape& flag : file_flags())
      (flag.is_positional() ? positional : flags) += help_line(label_of(flag), flag.help);
  }
  if (!actions_.empty()) text += " SUBCOMMAND";
  if (usage.empty()) text += "\n";
  if (!positional.empty()) text += "\nPositionals:\n" + positional;
  text += "\nOptions:\n" + flags;
  if (!actions_.empty()) text += "\nSubcommands:\n";
  for (const auto& action : actions_) text += help_line(action->name_, action->purpose_);
  text += "\n";
  if (!footer_.empty()) text += footer_ + "\n";
  if (options_in_help_ == OptionsInHelp::names) text += option_names_help();
  if (options_in_help_ == OptionsInHelp::described) text += options_help();
  return text;
}

std::optional<int> Flags::answer(const std::vector<std::string>& words) const {
  if (line_.shape) {
    *line_.shape = shape();
    return 0;
  }
  for (const auto& [name, run] : commands_) {
    if (!words.empty() && words[0] == name) return run(std::vector<std::string>(words.begin() + 1, words.end()));
  }
  if (!(configuration_ || options_ || !commands_.empty()) || !asks_help(words)) return std::nullopt;
  fmt::print("{}", help());
  return 0;
}

/// Reads the words of one command line.
class Flags::Reader {
 public:
  Reader(Flags& flags, std::vector<std::string> words) : top_(flags), now_(&flags), words_(std::move(words)) {}

  std::optional<int> read() {
    take_command();
    take_foreign();
    while (at_ < words_.size()) {
      const std::string word = words_[at_++];
      if (!ended_ && word == "--") {
        ended_ = true;
      } else if (!ended_ && is_flag(word)) {
        read_flag(word);
      } else {
        read_positional(word);
      }
    }
    if (help_) {
      fmt::print("{}", help_of_chosen());
      return 0;
    }
    apply(top_);
    if (now_ != &top_) apply(*now_);
    require_all();
    if (!unknown_.empty()) refuse("");
    if (top_.configuration_) {
      require_spelling(rest_, long_names());
      *top_.configuration_ = split_words(collected(), std::move(problems_));
    } else {
      require_none(problems_);
    }
    return std::nullopt;
  }

 private:
  void take_command() {
    const auto dashes = std::ranges::find(words_, "--");
    if (!top_.after_dashes_ || dashes == words_.end()) return;
    top_.after_dashes_->assign(dashes + 1, words_.end());
    words_.erase(dashes, words_.end());
  }

  /// Replaces other programs' spellings by those of this command. A configuration's own are left to split_words().
  void take_foreign() {
    if (asks_help(words_) || (top_.configuration_ && top_.option_flags_.empty())) return;
    Flags* const action = words_.empty() ? nullptr : find_action(words_[0]);
    Flags& chosen = action ? *action : top_;
    std::string command = top_.name_;
    if (command.starts_with("trireme ")) command.erase(0, 8);
    if (action) command += " " + action->name_;
    const auto knows = [&](const std::string& name) {
      return name == "--help" || chosen.find(name) != nullptr || top_.find_option_flag(name) != nullptr;
    };
    problems_ = take_foreign_options(command, knows, words_);
  }

  Flags* find_action(const std::string& word) const {
    const auto found = std::ranges::find_if(top_.actions_, [&](const auto& action) { return action->name_ == word; });
    return found == top_.actions_.end() ? nullptr : found->get();
  }

  /// Whether the word is a flag, known or not; "-1" is a value.
  bool is_flag(const std::string& word) const {
    if (word.size() < 2 || word[0] != '-') return false;
    if (word[1] != '-') return std::isdigit(static_cast<unsigned char>(word[1])) == 0 && word[1] != ' ';
    return word.size() > 2 && word[2] != '-' && word[2] != ' ';
  }

  void read_positional(const std::string& word) {
    if (Flags* const action = now_ == &top_ && !ended_ ? find_action(word) : nullptr) {
      now_ = action;
      action->chosen_ = true;
      return;
    }
    for (const auto& flag : now_->declared_) {
      if (!flag->shape.is_positional() || (!flag->shape.repeats && !flag->given.empty())) continue;
      flag->given.push_back(word);
      return;
    }
    not_known(word);
  }

  void read_flag(const std::string& word) {
    const bool is_long = word.starts_with("--");
    FlagWord typed = is_long ? flag_word(word) : FlagWord{word.substr(0, 2), std::nullopt};
    const std::string attached = is_long ? "" : word.substr(2);
    if (typed.name == "--help" || typed.name == "-h") {
      help_ = true;
      return;
    }
    DeclaredFlag* const flag = now_->find(typed.name);
    if (flag == nullptr) return read_other(word, typed);
    if (flag->once && !flag->given.empty()) refuse(fmt::format("{} is given twice", flag->name()));
    if (flag->is_switch()) return read_switch(*flag, typed, attached);
    if (!attached.empty()) typed.value = attached;
    if (!flag->ending.empty() && !typed.value) return read_files(*flag);
    if (typed.value) {
      add(*flag, *typed.value);
    } else if (!flag->shape.value_is_optional) {
      add(*flag, next_value(*flag, word));
    } else if (at_ < words_.size() && is_value(words_[at_])) {
      add(*flag, words_[at_++]);
    } else {
      add(*flag, flag->alone);
    }
    if (!flag->shape.repeats || flag->one_value) return;
    const auto waiting = static_cast<size_t>(std::ranges::count_if(now_->declared_, [](const auto& other) {
      return other->shape.is_positional() && other->shape.required && other->given.empty();
    }));
    while (at_ < words_.size() && is_value(words_[at_]) && words_.size() - at_ > waiting) add(*flag, words_[at_++]);
    if (at_ < words_.size() && words_[at_] == "--") ++at_;  // ends a list
  }

  void read_switch(DeclaredFlag& flag, const FlagWord& typed, const std::string& attached) {
    if (top_.configuration_ && typed.value)
      refuse(fmt::format("{0} takes no value, found \"{0}={1}\"", typed.name, *typed.value));
    if (typed.value && typed.value->empty())
      fail(ErrorKind::usage,
           "{0}: {1}= has no value; give {1} without '=', or remove it; `{0} --help` explains the flags",
           name_of_chosen(), typed.name);
    const std::optional<bool> on = truth_of(typed.value.value_or("true"));
    if (!on) refuse(fmt::format("{}: {} given, expected true or false", flag.name(), *typed.value));
    const bool is_off = std::ranges::find(flag.off, typed.name) != flag.off.end();
    flag.given.emplace_back(*on != is_off ? "true" : "false");
    if (!attached.empty()) words_.insert(words_.begin() + static_cast<ptrdiff_t>(at_), "-" + attached);
  }

  void read_files(DeclaredFlag& flag) {
    const size_t before = flag.given.size();
    while (at_ < words_.size() && words_[at_].ends_with(flag.ending)) flag.given.push_back(words_[at_++]);
    if (flag.given.size() == before) refuse_missing(flag);
  }

  /// A flag that is not declared here: a name for an option, an option, or unknown.
  void read_other(const std::string& word, const FlagWord& typed) {
    if (const OptionFlag* const own = top_.find_option_flag(typed.name)) return read_option_flag(*own, typed);
    if (!top_.options_ || typed.name.find('.') == std::string::npos) {
      const size_t equals = std::min(word.find('='), word.size());
      return not_known(top_.configuration_ ? word : typed.name + word.substr(word.starts_with("--") ? equals : 2));
    }
    const std::string option = typed.name.substr(2);
    if (!top_.wanted_(option))
      fail(ErrorKind::usage, "\"{}\" {}", word.substr(0, typed.name.size()), top_.why_not_(option));
    top_.options_->push_back(word);
    if (!typed.value && at_ < words_.size() && !words_[at_].starts_with("--")) top_.options_->push_back(words_[at_++]);
  }

  void read_option_flag(const OptionFlag& flag, const FlagWord& typed) {
    const bool more = at_ < words_.size();
    if (flag.if_twice) {
      const std::string value = typed.value ? *typed.value : more ? words_[at_] : "";
      const auto before = std::ranges::find(single_, &flag, &std::pair<const OptionFlag*, std::string>::first);
      require(before == single_.end() || before->second == value, ErrorKind::usage, "{} is given twice, {} and {}, {}",
              flag.flag, before == single_.end() ? "" : before->second, value, flag.if_twice);
      single_.emplace_back(&flag, value);
    }
    if (flag.collects == Collects::nothing) {
      rest_.push_back(std::string("--") + flag.option + (typed.value ? "=" + *typed.value : ""));
      return;  // its value follows
    }
    require(typed.value || more, ErrorKind::usage, "{} needs NAME=VALUE", flag.flag);
    collected_.add(flag, typed.value ? *typed.value : words_[at_++]);
  }

  void not_known(const std::string& word) { (top_.configuration_ ? rest_ : unknown_).push_back(word); }

  void add(DeclaredFlag& flag, const std::string& value) {
    if (flag.separator == 0) return flag.given.push_back(value);
    for (std::string& part : split(value, flag.separator)) flag.given.push_back(std::move(part));
  }

  bool is_value(const std::string& word) const {
    return word != "--" && !is_flag(word) && !(now_ == &top_ && find_action(word));
  }

  std::string next_value(const DeclaredFlag& flag, const std::string& word) {
    if (at_ == words_.size()) refuse_missing(flag);
    const std::string& next = words_[at_];
    const std::string name = flag_word(next).name;
    const bool is_known = next.starts_with("--") && (name == "--help" || now_->find(name) != nullptr);
    require(!is_known, ErrorKind::usage,
            "{0}: {1} has no value: the flag {2} follows it (is a shell variable not set?); {1}={2} takes it as the "
            "value; `{0} --help` explains the flags",
            top_.name_, flag_word(word).name, next);
    ++at_;
    return next;
  }

  void apply(Flags& flags) {
    for (const auto& flag : flags.declared_) {
      for (const std::string& value : flag->given) {
        if (!flag->is_switch()) check(*flag, value);
      }
      if (!flag->given.empty()) flag->set(flag->given);
    }
  }

  void check(const DeclaredFlag& flag, const std::string& value) {
    for (const auto& reason_of : flag.checks) {
      const std::string reason = reason_of(value);
      if (reason.empty()) continue;
      if (reason.starts_with("is ")) refuse(flag.name() + " " + reason);
      if (!top_.configuration_ || flag.expected.empty()) refuse(fmt::format("{}: {}", flag.name(), reason));
      if (value.empty()) refuse(flag.name() + ": the value is empty; is a shell variable not set?");
      refuse(fmt::format("{} is {}, expected {}", flag.name(), value, flag.expected));
    }
  }

  void require_all() {
    for (Flags* const flags : {&top_, now_}) {
      for (const auto& flag : flags->declared_) {
        if (flag->shape.required && flag->given.empty()) refuse(flag->name() + " is required");
      }
    }
    if (!top_.actions_.empty() && now_ == &top_) refuse("A subcommand is required");
  }

  [[noreturn]] void refuse_missing(const DeclaredFlag& flag) {
    if (!top_.configuration_) refuse(fmt::format("{}: 1 required {} missing", flag.name(), flag.type));
    refuse(flag.needs.empty() ? fmt::format("{} needs a value; `{} --help` explains it", flag.name(), top_.name_)
                              : fmt::format("{} needs {}", flag.name(), flag.needs));
  }

  /// Unknown words are reported first: one may be a misspelling of a missing flag.
  [[noreturn]] void refuse(const std::string& reason) {
    if (top_.configuration_) {
      if (!problems_.empty()) problems_.push_back(reason);
      require_none(problems_);
      fail(ErrorKind::usage, "{}", reason);
    }
    const std::string text =
        fmt::format("{}: {}; `{} --help` explains the flags", name_of_chosen(),
                    unknown_.empty() ? reason : "not expected: " + describe_unknown(), name_of_chosen());
    if (!unknown_.empty() && !problems_.empty()) problems_.push_back(text);
    require_none(problems_);  // a missing flag may be one of the refused
    fail(ErrorKind::usage, "{}", text);
  }

  std::string name_of_chosen() const { return now_ == &top_ ? top_.name_ : top_.name_ + " " + now_->name_; }

  std::string help_of_chosen() {
    if (now_ == &top_) return top_.help();
    const std::string name = std::exchange(now_->name_, name_of_chosen());
    std::string text = now_->help();
    now_->name_ = name;
    return text;
  }

  std::vector<std::string> long_names() const {
    std::vector<std::string> names;
    for (const auto& flag : now_->declared_) {
      std::ranges::copy_if(flag->shape.names, std::back_inserter(names),
                           [](const std::string& name) { return name.starts_with("--"); });
    }
    return names;
  }

  /// The words of the configuration.
  std::vector<std::string> collected() const {
    std::vector<std::string> words = rest_, more = collected_.words();
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  /// The unknown words, each with what it may have meant: an action where one is required, otherwise a flag.
  std::string describe_unknown() const {
    std::vector<std::string> names, texts;
    if (now_ == &top_ && !top_.actions_.empty()) {
      for (const auto& action : top_.actions_) names.push_back(action->name_);
      const std::string near = nearest_name(unknown_[0], names);
      return fmt::format("{}{}", fmt::join(unknown_, " "), near.empty() ? "" : fmt::format("; did you mean {}?", near));
    }
    names = long_names();
    names.emplace_back("--help");
    bool after_flag = false;
    for (const std::string& word : unknown_) {
      std::string name = word.substr(0, word.find('='));
      const bool is_name = name.size() > 2 && name.starts_with('-');
      if (is_name && !name.starts_with("--")) name.insert(0, "-");   // mpirun's long names have one dash
      if (!word.starts_with('-') && !texts.empty() && after_flag) {  // its value
        texts.back().insert(std::min(texts.back().find(';'), texts.back().size()), " " + word);
        after_flag = false;
        continue;
      }
      after_flag = is_name && word.find('=') == std::string::npos;
      const std::string near = is_name ? nearest_name(name, names) : "";
      texts.push_back(near.empty() ? word : fmt::format("{}; did you mean {}?", word, near));
    }
    if (texts.size() == 1 || std::ranges::none_of(texts, [](const std::string& text) { return text.ends_with('?'); }))
      return fmt::format("{}", fmt::join(texts, " "));
    return fmt::format("\n    {}", fmt::join(texts, "\n    "));
  }

  Flags& top_;
  Flags* now_;  ///< the chosen action, once it has been read
  std::vector<std::string> words_;
  size_t at_ = 0;
  bool ended_ = false, help_ = false;
  std::vector<std::string> unknown_, rest_, problems_;
  std::vector<std::pair<const OptionFlag*, std::string>> single_;  ///< flags with if_twice, and their values
  CollectedOptions collected_;
};

std::optional<int> Flags::parse(std::vector<std::string> words) {
  if (const auto code = answer(words)) return code;
  for (const auto& flag : declared_) flag->given.clear();
  for (const auto& action : actions_) {
    action->chosen_ = false;
    for (const auto& flag : action->declared_) flag->given.clear();
  }
  return Reader(*this, std::move(words)).read();
}

}  // namespace trireme
