#include "cli/command.h"

namespace trireme {
namespace {

constexpr Command kCommands[] = {
    {nullptr, nullptr, nullptr},
    {"tokenizer", "train a tokenizer, encode and decode text", run_tokenizer},
    {"prepare", "turn text into token files for training", run_prepare},
};

}  // namespace

std::span<const Command> commands() { return std::span(kCommands).subspan(1); }

}  // namespace trireme
