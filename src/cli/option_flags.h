#pragma once
// The options of config/config.h as flags of a command, and a command's own names for them.

#include <string>
#include <string_view>
#include <vector>

#include "cli/command_shape.h"

namespace trireme {

/// What becomes of the values of a flag that may be repeated.
enum class Collects { nothing, list, object };

/// A command's own name for a native option.
struct OptionFlag {
  const char *flag, *option, *value, *help;  ///< "--epochs", "chat.epochs", "X"; value "": it is a switch
  /// list: NAME=VALUE,...; object: JSON with the members NAME.
  Collects collects = Collects::nothing;
  /// Why two different values are refused; nullptr: the last one counts.
  const char* if_twice = nullptr;
};

/// Values of repeated flags.
class CollectedOptions {
 public:
  /// Throws Error::usage unless the value is NAME=VALUE.
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

}  // namespace trireme
