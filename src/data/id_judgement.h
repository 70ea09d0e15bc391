#pragma once
// Guesses the content of a file of numbers without a header: 16-bit ids, or numbers of another width, byte order or
// kind.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace trireme {

struct IdJudgement {
  std::string other;        ///< what it seems to be instead of little-endian 16-bit ids; empty: seems to be ids
  std::string todo;         ///< how to make a token file of it
  double zeros = 0;         ///< share of zeros among the sampled ids
  bool ends_empty = false;  ///< the last window holds zeros only
};

/// Samples up to 16 windows of 64 KiB, from the first to the last. Valid ids of any vocabulary pass, also few distinct,
/// constant and padded ones. If every second id is 0, with three or more other ids between, they cannot be
/// distinguished from 32-bit ids and are reported as such. width 4: the ids are known to have 32 bits, and only zeros
/// are counted.
IdJudgement judge_ids(std::span<const std::byte> bytes, uint64_t width = 2);

}  // namespace trireme
