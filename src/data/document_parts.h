#pragma once
// "969, 30, 1": which documents of an indexed dataset are for training, validation and test.

#include <array>
#include <cstdint>
#include <string>

namespace trireme {

/// Documents [begin[i], begin[i + 1]) are part i: train, valid, test.
using PartBorders = std::array<uint64_t, 4>;

/// Up to three shares separated by commas or slashes, missing ones are 0; a single number is training only. Shares are
/// normalised, their cumulative borders rounded (halves to even) and then all shifted so that the last is `documents`,
/// as Megatron does. Throws Error::usage for anything else.
PartBorders part_borders(const std::string& split, uint64_t documents);

}  // namespace trireme
