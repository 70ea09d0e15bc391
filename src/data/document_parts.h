#pragma once
// "969, 30, 1": which documents of an indexed dataset are for training, validation and test.

#include <array>
#include <cstdint>
#include <string>

namespace trireme {

/// Documents [begin[i], begin[i + 1]) are part i: train, valid, test.
using PartBorders = std::array<uint64_t, 4>;

/// Shares with commas (or slashes) between, up to three, the missing ones 0; one number is training alone. Shares are
/// normalised, their cumulative borders rounded (halves to even) and then all shifted so that the last is `documents`,
/// as Megatron does. Throws Error::usage for anything else.
PartBorders part_borders(const std::string& split, uint64_t documents);

}  // namespace trireme
