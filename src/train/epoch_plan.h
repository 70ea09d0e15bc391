#pragma once
// Which rows a fine-tuning step takes: pure functions of the rows seen so far, so that any number of ranks can resume.

#include <cstdint>
#include <vector>

namespace trireme {

/// An epoch is every row once, in ceil(rows / global) steps; the last step may be short.
struct EpochPlan {
  int64_t rows = 0;
  int64_t global = 0;  ///< rows per step over all ranks

  int64_t steps_per_epoch() const { return (rows + global - 1) / global; }
  /// most_steps > 0 replaces the number of epochs.
  int64_t total_steps(double epochs, int64_t most_steps) const;

  struct Step {
    int64_t epoch = 0;
    int64_t first = 0, count = 0;  ///< positions in the epoch's order
  };
  Step at(uint64_t consumed) const;
};

/// The rows of an epoch in its order: a shuffle by (seed, epoch).
std::vector<uint32_t> epoch_order(uint64_t seed, int64_t epoch, int64_t rows);

/// Micro-batches that a rank needs for its part of `global` rows, with at most `per_device` rows each.
int64_t micro_batches_for(int64_t global, int ranks, int64_t per_device);

}  // namespace trireme
