#pragma once
// The options of config/config.h as data: the name, allowed values and purpose of each, and access to its field by
// name.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "config/setting.h"

namespace trireme {

enum class OptionType { text, choice, integer, number, flag };

struct Option {
  std::string name;   ///< "optim.learning-rate"
  std::string group;  ///< "optim"
  std::string help;
  OptionType type = OptionType::text;
  Value default_value;
  Value minimum, maximum;            ///< of integers (int64_t) and numbers (double)
  std::vector<std::string> choices;  ///< of choices
  std::vector<std::pair<std::string, std::string>>
      spellings;     ///< of choices: other accepted words, and what each means
  size_t index = 0;  ///< place in the order of declaration

  /// "a whole number from 1 to 1000", "one of f32, bf16".
  std::string expected() const;
  /// Whether it may be given without a value, which means true.
  bool value_is_optional() const;
  /// If it may be given without a value: whether the word is a value of it.
  bool takes(std::string_view word) const;
};

struct OptionGroup {
  std::string name, help;
};

class Schema {
 public:
  Schema();
  std::span<const OptionGroup> groups() const { return groups_; }
  std::span<const Option> options() const { return options_; }
  /// '_' equals '-'; nullptr if there is none.
  const Option* find(std::string_view name) const;
  bool is_group(std::string_view name) const;
  std::vector<std::string> names() const;

 private:
  std::vector<OptionGroup> groups_;
  std::vector<Option> options_;
};

const Schema& schema();

/// The option that overrides this one in the configuration, "" if there is none: batch.per-rank for batch.global,
/// optim.warmup-fraction for optim.warmup-steps.
std::string_view overridden_by(const Config& config, const Option& option);

/// Whether the option changes what a run computes or which data it reads, and not only where and how fast it computes,
/// or what is written about it.
bool changes_results(const Option& option);

/// The value has the type of Option::default_value.
Value get(const Config& config, const Option& option);
void set(Config& config, const Option& option, const Value& value);

/// The setting as a value of the option. Throws Error::config (type, range, choice, not finite) naming its origin.
Value convert(const Option& option, const Setting& setting);

}  // namespace trireme
