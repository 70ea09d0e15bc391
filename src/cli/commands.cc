#include "cli/command.h"

namespace trireme {
namespace {

constexpr Command kCommands[] = {
    {nullptr, nullptr, nullptr},
};

}  // namespace

std::span<const Command> commands() { return std::span(kCommands).subspan(1); }

}  // namespace trireme
