#include "cli/command.h"

namespace trireme {
namespace {

constexpr Command kCommands[] = {
    {nullptr, nullptr, nullptr},
    {"export", "write a checkpoint as a folder that Hugging Face transformers loads", run_export},
    {"checkpoint", "list, show, verify or prune the checkpoints of a run", run_checkpoint},
    {"config", "print the configuration that files and flags give, or the list of options", run_config},
};

}  // namespace

std::span<const Command> commands() { return std::span(kCommands).subspan(1); }

}  // namespace trireme
