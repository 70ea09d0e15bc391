#pragma once
// A subcommand's flags, parsed into variables. The parser's headers are slow to compile, so only flags.cc sees them.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/names.h"
#include "cli/command_shape.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace trireme {

/// Throws Error::usage if no file can be written under the name; empty: none is asked for.
void require_output(const char* flag, const std::string& path);

/// Whether one of the words is --help or -h.
bool asks_help(const std::vector<std::string>& words);

/// A declared flag. Its limits chain: flags.add("--batch", batch, "sequences").positive().show_default().
class Flag {
 public:
  /// facts: what the shape of the flag gets beside what the parser knows.
  Flag(CLI::Option* option, FlagShape& facts) : option_(option), facts_(&facts) {}

  Flag required() const;
  Flag show_default() const;  ///< shows the variable's current value in --help
  Flag positive() const;
  Flag not_negative() const;
  Flag output_file() const;  ///< refuses a name under which nothing can be written, on the rank that may write it
  Flag not_empty() const;    ///< refuses "", usually a shell variable that is not set
  Flag in_range(int64_t lowest, int64_t highest) const;
  Flag between(double lowest, double highest) const;  ///< of numbers with a fraction
  Flag one_of(std::vector<std::string> values) const;
  Flag separated_by(char separator) const;  ///< for a list: "a,b" is two values
  Flag one_value() const;                   ///< for a list: each occurrence takes one value
  /// May be given without a value, which then means `alone`; --help shows `shown` after the name.
  Flag optional_value(const std::string& alone, const std::string& shown) const;

 private:
  CLI::Option* option_;
  FlagShape* facts_;
};

class Flags {
 public:
  Flags(const std::string& name, const std::string& purpose);
  Flags(const Flags&) = delete;
  Flags& operator=(const Flags&) = delete;
  ~Flags();

  /// Names as in "-c,--config"; without dashes a positional argument. T: string, a number, or a vector or optional of
  /// them (instantiated in flags.cc).
  template <class T>
  Flag add(const std::string& names, T& value, const std::string& help = "");
  /// One of the names of an enum's values (base/names.h), or of those in `values`; --help shows the current one.
  template <HasNames E>
  Flag choice(const std::string& names, E& value, const std::string& help,
              std::initializer_list<std::type_identity_t<E>> values = {}) {
    std::vector<std::string> allowed;
    for (const E one : values) allowed.emplace_back(name_of(one));
    if (allowed.empty()) {
      for (const Named<E>& known : Names<E>::kAll) allowed.emplace_back(known.name);
    }
    return add_choice(names, std::string(name_of(value)), std::move(allowed), help,
                      [&value](const std::string& name) { value = *value_named<E>(name); });
  }
  /// True if it is given; "--stop,!--no-stop" has a form that makes it false.
  Flag add_switch(const std::string& names, bool& value, const std::string& help = "");
  /// One of several words that must follow; it lives as long as this object.
  Flags& add_action(const std::string& name, const std::string& purpose);
  void set_footer(const std::string& text);
  /// For completions: after `--` comes a command of trireme, which the caller takes out before parse().
  void takes_command() { takes_command_ = true; }

  /// In flags '-' equals '_'; spellings of other programs are accepted as config/foreign_options.h says. Help goes to
  /// standard output and gives exit code 0; a wrong flag throws Error::usage with the parser's reason.
  std::optional<int> parse(std::vector<std::string> arguments);

  /// What has been declared.
  CommandShape shape() const;

  /// After parse(): how often the flag was given.
  size_t count(const std::string& name) const;
  /// After parse() of the flags that this action belongs to.
  bool chosen() const;

 private:
  explicit Flags(CLI::App* action);
  Flag add_choice(const std::string& names, const std::string& present, std::vector<std::string> allowed,
                  const std::string& help, const std::function<void(const std::string&)>& set);

  std::unique_ptr<CLI::App> owned_;
  CLI::App* app_;
  std::vector<std::unique_ptr<Flags>> actions_;
  std::map<const CLI::Option*, FlagShape> facts_;  // flags hold references to its elements
  bool takes_command_ = false;
};

/// What a command declares: calls it, and ends its parse() there.
CommandShape shape_of(int (*command)(std::vector<std::string> arguments));

}  // namespace trireme
