#pragma once
// What a file of numbers is that nothing names: 16-bit ids, or numbers of another width, order of bytes or kind.

#include <cstddef>
#include <span>
#include <string>

namespace trireme {

struct IdJudgement {
  std::string other;  ///< what it seems to be instead of little-endian 16-bit ids; empty: nothing speaks against it
  std::string todo;   ///< what makes a token file of it
  double zeros = 0;   ///< share of the looked-at ids that are 0
  bool ends_empty = false;  ///< the last window holds zeros only
};

/// Looks at up to 16 windows of 64 KiB, from the first to the last. Legal ids of any vocabulary, also of few distinct
/// characters, constant ones and padded ones pass; of every second id 0, with three or more others between, it cannot
/// be told from 32-bit ids and is taken for these.
IdJudgement judge_ids(std::span<const std::byte> bytes);

}  // namespace trireme
