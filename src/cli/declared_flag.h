#pragma once
// What a command line has declared: between the declarations (flags.cc), the reader (flags_reader.cc) and --help
// (flags_help.cc) of cli/flags.h.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/command_shape.h"

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

/// The meaning of a word such as "true", "0", "Yes", "on", "f".
std::optional<bool> truth_of(const std::string& text);
/// The parts that are not empty; of a text without the separator, the text.
std::vector<std::string> split_value(const std::string& text, char separator);
bool asks_help(const std::vector<std::string>& words);

}  // namespace trireme
