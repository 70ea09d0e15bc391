#pragma once
// Sample order as a pure function of (seed, stream, global sample index). Its state is one integer: samples consumed.

#include <cstdint>
#include <span>

namespace trireme {

enum class SampleStream : uint32_t { training = 1, evaluation = 2 };

/// First token of global sample `index`: uniform in [0, tokens - sequence) with replacement (a sample is sequence + 1
/// tokens). Throws Error::data when tokens < sequence + 1.
uint64_t window_start(uint64_t seed, SampleStream stream, uint64_t index, uint64_t tokens, uint64_t sequence);

/// How a global batch is cut, the same on every rank.
struct BatchShape {
  int64_t global = 0;         ///< sequences per step over all ranks
  int64_t micro_batches = 1;  ///< per rank
  int64_t sequence = 0;       ///< tokens per sequence
  int ranks = 1, rank = 0;    ///< of the data axis
  /// Sequences of the largest micro-batch of any rank: what memory is planned for.
  int64_t largest_micro() const;
};

/// Which samples of one step a rank computes: sample n of the step's global batch goes to ranks and micro-batches by
/// contiguous slices.
struct BatchSlice {
  uint64_t first = 0;  ///< global sample index
  int64_t count = 0;
};
/// The shape's rank's micro-batch `micro_index` of the step that begins at global sample `consumed`. Rank r takes
/// [r, r+1) x global / ranks; its micro-batches cut that slice in order. Uneven divisions give the earlier ones one
/// more.
BatchSlice batch_slice(uint64_t consumed, const BatchShape& shape, int64_t micro_index);

/// Fills tokens and targets [count x sequence] i32 with the windows of samples [slice.first, slice.first +
/// slice.count).
void gather_windows(std::span<const uint16_t> data, uint64_t seed, SampleStream stream, BatchSlice slice,
                    int64_t sequence, std::span<int32_t> tokens, std::span<int32_t> targets);

}  // namespace trireme
