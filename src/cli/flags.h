#pragma once
// The command line of a command: what it takes is declared here once. Words are read, and --help, completions and
// manual pages are made, from the declarations.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/names.h"
#include "cli/command_shape.h"
#include "config/load.h"

namespace trireme {

/// What becomes of the values of a flag that may be repeated.
enum class Collects { nothing, values, list, object };

/// A command's own name for a native option.
struct OptionFlag {
  const char *flag, *option, *value, *help;  ///< "--epochs", "chat.epochs", "X"; value "": it is a switch
  /// values: VALUE, ...; list: NAME=VALUE,...; object: JSON with the members NAME.
  Collects collects = Collects::nothing;
};

/// Values of repeated flags.
class CollectedOptions {
 public:
  /// Throws Error::usage unless the value of a list or an object is NAME=VALUE.
  void add(const OptionFlag& flag, const std::string& value);
  /// "--chat.roles=customer=user, agent=assistant"
  std::vector<std::string> words() const;

 private:
  struct Collected {
    const OptionFlag* flag;
    std::string text;  ///< as the option takes it
  };
  std::vector<Collected> collected_;
};

FlagShape shape_of(const OptionFlag& flag);
/// One group per group of options; wanted: which of them, all if it is null.
std::vector<FlagGroup> option_groups(bool (*wanted)(std::string_view name) = nullptr);
/// For --help: the names of all options in their groups.
std::string option_names_help();
/// Throws Error::usage for a word that misspells one of a command's own flags and is not an option of a configuration,
/// whose reader would not know the flag.
void require_spelling(const std::vector<std::string>& words, const std::vector<std::string>& own);
/// FILES, -d, --dialect, --default, --verbose: what split_words() takes beside options.
std::vector<FlagShape> file_flags();

/// Throws Error::usage if no file can be written under the name; empty: none is asked for.
void require_output(const char* flag, const std::string& path);

struct DeclaredFlag;

/// A declared flag. Its limits chain: flags.add("--batch", batch, "sequences").positive().show_default().
class Flag {
 public:
  explicit Flag(DeclaredFlag& declared) : declared_(&declared) {}

  Flag required() const;
  Flag show_default() const;  ///< shows the variable's current value in --help
  Flag positive() const;
  Flag not_negative() const;
  Flag output_file() const;  ///< refuses a name under which nothing can be written, on the rank that may write it
  Flag not_empty() const;    ///< refuses "", usually a shell variable that is not set
  Flag in_range(int64_t lowest, int64_t highest) const;
  Flag between(double lowest, double highest) const;  ///< of numbers with a fraction
  Flag positive_up_to(double highest) const;
  Flag one_of(std::vector<std::string> values) const;
  Flag separated_by(char separator) const;      ///< for a list: "a,b" is two values
  Flag one_value() const;                       ///< for a list: each occurrence takes one value
  Flag files(const std::string& ending) const;  ///< for a list: takes the words after it that end like this
  Flag once() const;                            ///< refuses a second occurrence; otherwise its value counts
  Flag needs(const std::string& what) const;    ///< "a number": for the message about a missing value
  /// May be given without a value, which then means `alone`; --help shows `shown` after the name.
  Flag optional_value(const std::string& alone, const std::string& shown) const;

 private:
  /// reason_of: "" or why the value is refused.
  Flag check(std::function<std::string(const std::string& value)> reason_of) const;
  Flag number_where(const std::string& expected, std::function<bool(double value)> fits) const;

  DeclaredFlag* declared_;
};

/// Which options of the configuration --help shows.
enum class OptionsInHelp : uint8_t { none, names, described };

class Flags {
 public:
  /// name: "trireme train", as messages and --help show it.
  Flags(CommandLine line, std::string name, std::string purpose);
  Flags(std::string name, std::string purpose) : Flags(CommandLine(), std::move(name), std::move(purpose)) {}
  Flags(const Flags&) = delete;
  Flags& operator=(const Flags&) = delete;
  ~Flags();

  /// Names as in "-c,--config"; without dashes a positional argument. T: string, a number, or an optional or (of
  /// strings) a vector of them (instantiated in flags.cc).
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
                      [&value](const std::string& given) { value = *value_named<E>(given); });
  }
  /// True if it is given; "--stop,!--no-stop" has a form that makes it false.
  Flag add_switch(const std::string& names, bool& value, const std::string& help = "");
  /// As transformers' flags: True (also true, 1, yes), False, or without a value, which means True. --help shows the
  /// present value; nullopt: there is none, and None leaves it so.
  Flag add_truth(const std::string& names, std::optional<bool> present, std::function<void(bool)> set,
                 const std::string& help);
  /// One of several words that must follow; it lives as long as this object. It has the footer that was set before.
  Flags& add_action(const std::string& name, const std::string& purpose);
  /// A command that reads its own words, after its name. It is not listed in --help.
  void add_command(const std::string& name, std::function<int(CommandLine)> run);
  /// Also takes files and options of a configuration, which parse() separates, and describes their flags. Errors have
  /// the form of those in such options: "--nodes is 0, expected ...".
  void add_configuration(ConfigWords& words, OptionsInHelp help);
  /// The command's own names of some of these options. What `flags` views stays.
  void add_option_flags(std::span<const OptionFlag> flags) { option_flags_.push_back(flags); }
  /// Also takes options of a configuration, and no files: `--group.option VALUE`. wanted: which of them. why_not: the
  /// reason for which another one is refused.
  void add_options(std::vector<std::string>& words, bool (*wanted)(std::string_view name),
                   std::function<std::string(const std::string& name)> why_not);
  /// Words after "usage: " in --help, which begins with them; further lines are indented.
  void set_usage(std::string text) { usage_ = std::move(text); }
  void set_footer(std::string text) { footer_ = std::move(text); }
  /// After `--` come the words of a command of trireme.
  void takes_command(std::vector<std::string>& words) {
    takes_program(words);
    completes_command_ = true;
  }
  /// After `--` come the words of any program.
  void takes_program(std::vector<std::string>& words) { after_dashes_ = &words; }

  /// The exit code if the flags need not be read: the declarations or --help were wanted, or add_command()'s command.
  std::optional<int> answer() const { return answer(line_.words); }
  /// Reads the words of the command line. The exit code if the command has been answered: help goes to standard output.
  /// In flags '-' equals '_'; spellings of other programs are accepted as config/foreign_options.h says. Throws
  /// Error::usage.
  std::optional<int> parse() { return parse(line_.words); }
  std::optional<int> parse(std::vector<std::string> words);
  const std::vector<std::string>& words() const { return line_.words; }

  /// What has been declared.
  CommandShape shape() const;

  /// After parse(): how often the flag was given.
  size_t count(const std::string& name) const;
  /// After parse() of the flags that this action belongs to.
  bool chosen() const { return chosen_; }

 private:
  class Reader;

  Flag add_choice(const std::string& names, const std::string& present, std::vector<std::string> allowed,
                  const std::string& help, std::function<void(const std::string&)> set);
  DeclaredFlag& declare(const std::string& names, const std::string& help);
  DeclaredFlag* find(std::string_view name);
  const OptionFlag* find_option_flag(std::string_view name) const;
  std::optional<int> answer(const std::vector<std::string>& words) const;
  std::string help() const;

  CommandLine line_;
  std::string name_, purpose_, usage_, footer_;
  std::vector<std::unique_ptr<DeclaredFlag>> declared_;
  std::vector<std::unique_ptr<Flags>> actions_;
  std::vector<std::pair<std::string, std::function<int(CommandLine)>>> commands_;
  ConfigWords* configuration_ = nullptr;
  OptionsInHelp options_in_help_ = OptionsInHelp::none;
  std::vector<std::span<const OptionFlag>> option_flags_;
  std::vector<std::string>* options_ = nullptr;
  bool (*wanted_)(std::string_view name) = nullptr;
  std::function<std::string(const std::string& name)> why_not_;
  std::vector<std::string>* after_dashes_ = nullptr;
  bool completes_command_ = false, chosen_ = false;
};

/// What a command declares.
CommandShape shape_of(const std::string& name, const std::function<int(CommandLine)>& command);

}  // namespace trireme
