#include "data/sampler.h"

#include <algorithm>
#include <cassert>

#include "base/error.h"
#include "base/rng.h"

namespace trireme {
namespace {

struct Part {
  int64_t first, count;
};

/// Part `index` of `total` split into `parts`: contiguous, the first total % parts are one longer.
Part part_of(int64_t total, int64_t parts, int64_t index) {
  const int64_t base = total / parts, longer = total % parts;
  return {index * base + std::min(index, longer), base + (index < longer)};
}

}  // namespace

uint64_t window_start(uint64_t seed, SampleStream stream, uint64_t index, uint64_t tokens, uint64_t sequence) {
  require(tokens > sequence, ErrorKind::data,
          "{} tokens are fewer than one sample of {} (batch.sequence and the token after it); use a longer text or a "
          "shorter --batch.sequence",
          tokens, sequence + 1);
  return RandomStream(mix_key(seed, static_cast<uint32_t>(stream)), index).below(tokens - sequence);
}

int64_t BatchShape::largest_micro() const {
  int64_t largest = 0;
  for (int r = 0; r < ranks; ++r) {
    for (int64_t m = 0; m < micro_batches; ++m)
      largest = std::max(largest, part_of(part_of(global, ranks, r).count, micro_batches, m).count);
  }
  return largest;
}

BatchSlice batch_slice(uint64_t consumed, const BatchShape& shape, int64_t micro_index) {
  assert(shape.ranks > 0 && shape.rank >= 0 && shape.rank < shape.ranks);
  assert(micro_index >= 0 && micro_index < shape.micro_batches);
  const Part of_rank = part_of(shape.global, shape.ranks, shape.rank);
  const Part of_micro = part_of(of_rank.count, shape.micro_batches, micro_index);
  return {consumed + static_cast<uint64_t>(of_rank.first + of_micro.first), of_micro.count};
}

void gather_windows(TokenIds data, uint64_t seed, SampleStream stream, BatchSlice slice, int64_t sequence,
                    std::span<int32_t> tokens, std::span<int32_t> targets) {
  const auto length = static_cast<size_t>(sequence);
  assert(tokens.size() == static_cast<size_t>(slice.count) * length && targets.size() == tokens.size());
  for (size_t i = 0; i < static_cast<size_t>(slice.count); ++i) {
    const uint64_t start = window_start(seed, stream, slice.first + i, data.size(), length);
    data.copy(start, tokens.subspan(i * length, length));
    data.copy(start + 1, targets.subspan(i * length, length));
  }
}

}  // namespace trireme
