#include "cli/command_shape.h"

#include <fmt/format.h>

#include "base/text.h"

namespace trireme {

std::vector<const FlagShape*> CommandShape::named_flags() const {
  std::vector<const FlagShape*> named;
  for (const FlagShape& flag : flags) {
    if (!flag.is_positional()) named.push_back(&flag);
  }
  for (const FlagGroup& group : groups) {
    for (const FlagShape& flag : group.flags) named.push_back(&flag);
  }
  return named;
}

std::string flag_lines(const std::vector<FlagShape>& flags) {
  constexpr size_t kColumn = 18, kWidth = 118;
  std::string text;
  for (const FlagShape& flag : flags)
    text += fmt::format("{:<{}}{}\n", flag.names.back(), kColumn, wrapped(flag.help, kWidth - kColumn, kColumn));
  return text;
}

}  // namespace trireme
