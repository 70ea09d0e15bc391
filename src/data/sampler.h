#pragma once
// Sample order as a pure function of (seed, stream, global sample index). Its state is one integer: samples consumed.

#include <cstdint>
#include <span>

#include "data/token_ids.h"

namespace trireme {

enum class SampleStream : uint32_t { training = 1, evaluation = 2 };

/// First token of global sample `index`: uniform in [0, tokens - sequence) with replacement (a sample is sequence + 1
/// tokens). Throws Error::data if tokens < sequence + 1.
uint64_t window_start(uint64_t seed, SampleStream stream, uint64_t index, uint64_t tokens, uint64_t sequence);

/// The split of a global batch, the same on every rank.
struct BatchShape {
  int64_t global = 0;         ///< sequences per step over all ranks
  int64_t micro_batches = 1;  ///< per rank
  int64_t sequence = 0;       ///< tokens per sequence
  int ranks = 1, rank = 0;    ///< of the data axis
  /// Sequences of the largest micro-batch of any rank, for planning memory.
  int64_t largest_micro() const;
};

/// A rank's samples of one step: the step's global batch is split into contiguous slices by rank and micro-batch.
struct BatchSlice {
  uint64_t first = 0;  ///< global sample index
  int64_t count = 0;
};
/// Micro-batch `micro_index` of the shape's rank, in the step that begins at global sample `consumed`. Rank r has [r,
/// r+1) x global / ranks; its micro-batches split that slice in order. Earlier parts of uneven splits have one more.
BatchSlice batch_slice(uint64_t consumed, const BatchShape& shape, int64_t micro_index);

/// Fills tokens and targets [count x sequence] i32 with the windows of samples [slice.first, slice.first +
/// slice.count).
void gather_windows(TokenIds data, uint64_t seed, SampleStream stream, BatchSlice slice, int64_t sequence,
                    std::span<int32_t> tokens, std::span<int32_t> targets);

}  // namespace trireme
