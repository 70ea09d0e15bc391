#include "cli/command_shape.h"

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

}  // namespace trireme
