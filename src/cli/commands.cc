#include "cli/command.h"

namespace trireme {
namespace {

constexpr Command kCommands[] = {
    {nullptr, nullptr, nullptr},
    {"config", "print the configuration that files and flags give, or the list of options", run_config},
    {"hosts", "show the hosts that a launch would use, or write them as another kind of hostfile", run_hosts},
};

}  // namespace

std::span<const Command> commands() { return std::span(kCommands).subspan(1); }

}  // namespace trireme
