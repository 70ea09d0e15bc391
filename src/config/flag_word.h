#pragma once
// Words of a command line.

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// A word as a flag: "--grad_clip=1" has the name "--grad-clip" and the value "1".
struct FlagWord {
  std::string name;                  ///< with its dashes, as canonical() writes it; of the length that it was typed in
  std::optional<std::string> value;  ///< after '='; nullopt: the next word may be it
};

FlagWord flag_word(const std::string& word);

/// Removes every occurrence of a flag that has these names, with its value, which follows '=' or is the next word.
/// Returns the value of the last one; nullopt: not given. Throws Error::usage, "NAME needs " and `needs`, if a value is
/// missing.
std::optional<std::string> take_flag(std::initializer_list<std::string_view> names, const char* needs,
                                     std::vector<std::string>& words);

/// Throws Error::config with all problems of a command line, if there are any: one as it is, several as a list.
void require_none(const std::vector<std::string>& problems);

}  // namespace trireme
