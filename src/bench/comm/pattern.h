#pragma once
// Numbers that every type holds exactly and whose reduction every type holds exactly, so that one wrong element is
// seen: small integers, a function of (rank, index, seed) with a prime period.

#include <cstdint>
#include <vector>

#include "comm/collectives.h"

namespace trireme::comm_bench {

class Pattern {
 public:
  /// `op`: of a reduction; for one that only moves data any. Throws Error::usage for avg on more than 120 ranks, whose
  /// sum the 8-bit types do not hold.
  Pattern(ReduceOp op, int ranks, uint64_t seed);

  /// values[i] = this rank's element first + i.
  void fill(Element element, void* values, int64_t first, int64_t count, int rank) const;
  /// How many of values[i] differ from rank's element first + i, or (rank < 0) from the reduction of all ranks'.
  int64_t count_wrong(Element element, const void* values, int64_t first, int64_t count, int rank) const;

 private:
  int input(int rank, int64_t index) const;
  std::vector<int> table(int rank) const;

  ReduceOp op_;
  int ranks_;
  uint64_t seed_;
};

}  // namespace trireme::comm_bench
