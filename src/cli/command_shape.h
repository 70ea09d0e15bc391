#pragma once
// The flags of a command as data, for shell completions and manual pages.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

enum class ValueKind : uint8_t {
  none,  ///< a switch
  text,  ///< a file, or any text
  number,
  choice,  ///< one of FlagShape::choices
};

/// A flag or a positional argument.
struct FlagShape {
  std::vector<std::string> names;  ///< "-o", "--output"; of a positional argument one name without dashes
  std::string help;
  ValueKind kind = ValueKind::text;
  std::vector<std::string> choices = {};
  std::string limits = {};    ///< "a number from 0 to 1"; may be empty
  std::string fallback = {};  ///< the value without the flag; may be empty
  bool required = false;
  bool repeats = false;  ///< takes several values
  bool value_is_optional = false;

  bool is_positional() const { return !names[0].starts_with('-'); }
};

/// A heading over some of the flags.
struct FlagGroup {
  std::string heading;
  std::vector<FlagShape> flags;
};

struct CommandShape {
  std::string name;        ///< "merge"
  std::string purpose;     ///< one or several sentences
  std::string notes = {};  ///< text after the flags
  std::vector<FlagShape> flags = {};
  std::vector<FlagGroup> groups = {};  ///< further flags
  std::vector<CommandShape> actions = {};
  bool takes_command = false;  ///< after `--` comes a command of trireme

  /// All flags, those of the groups too, without positional arguments.
  std::vector<const FlagShape*> named_flags() const;
};

/// What a command is called with.
struct CommandLine {
  CommandLine() = default;
  CommandLine(std::vector<std::string> after_name) : words(std::move(after_name)) {}
  CommandLine(std::initializer_list<std::string> after_name) : words(after_name) {}

  std::vector<std::string> words;  ///< after the command's name
  CommandShape* shape = nullptr;   ///< if set, the command stores here what it declares, and does nothing else
};

}  // namespace trireme
