#include "cli/flags.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/error.h"
#include "base/output_path.h"
#include "base/text.h"
#include "cli/declared_flag.h"
#include "comm/launcher.h"

namespace trireme {
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

/// "time, cost or memory"
std::string listed(const std::vector<std::string>& values) {
  if (values.size() < 2) return fmt::format("{}", fmt::join(values, ""));
  return fmt::format("{} or {}", fmt::join(values.begin(), values.end() - 1, ", "), values.back());
}

}  // namespace

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

std::vector<std::string> split_value(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(separator, at), text.size());
    if (end > at || text.find(separator) == std::string::npos) parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

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
  for (std::string name : split_value(names, ',')) {
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

}  // namespace trireme
