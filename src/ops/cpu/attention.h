#pragma once
// How attention is split into tasks, and the arguments of its kernels.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ops/ops.h"

namespace trireme {

/// One kv head of one sequence with its group of query heads, or share `split` of it: blocks split, split + splits, ...
/// of queries (forward) or keys (backward).
struct AttentionTask {
  int64_t sequence = 0, kv_head = 0, split = 0;
  int64_t begin = 0, length = 0;  ///< rows of the sequence
};

/// All tasks of a call. They are split only where there are fewer kv heads than the threads need; the number depends on
/// the shape and the thread count alone, so results keep their bits.
class AttentionTasks {
 public:
  AttentionTasks(const AttentionShape& shape, int threads)
      : offsets_(shape.offsets.values<int32_t>()),
        kv_heads_(shape.kv_heads),
        splits_(splits_for(int64_t{shape.kv_heads} * sequences(), threads)) {}

  int64_t sequences() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  int64_t splits() const { return splits_; }
  int64_t count() const { return sequences() * kv_heads_ * splits_; }
  AttentionTask at(int64_t i) const {
    const int64_t sequence = i / (kv_heads_ * splits_), begin = offsets_[static_cast<size_t>(sequence)];
    return {sequence, i / splits_ % kv_heads_, i % splits_, begin, offsets_[static_cast<size_t>(sequence) + 1] - begin};
  }
  int64_t longest() const {
    int64_t most = 0;
    for (size_t s = 0; s + 1 < offsets_.size(); ++s) most = std::max<int64_t>(most, offsets_[s + 1] - offsets_[s]);
    return most;
  }
  static int64_t splits_for(int64_t whole, int threads) {
    constexpr int64_t kTasksPerThread = 2;  // causal shares differ in work: the second evens it out
    const int64_t wanted = threads == 1 ? 1 : kTasksPerThread * threads;
    return whole >= wanted ? 1 : (wanted + whole - 1) / std::max<int64_t>(whole, 1);
  }

 private:
  std::span<const int32_t> offsets_;
  int64_t kv_heads_, splits_;
};

struct AttentionForward {
  const AttentionShape& shape;
  const Dropout& dropout;
  ConstView qkv;
  View out, lse;
  int64_t splits;
};

struct AttentionBackward {
  const AttentionShape& shape;
  const Dropout& dropout;
  ConstView dout, qkv, out, lse;
  View dqkv;
  int64_t splits;
  float* shares;  ///< with splits > 1: [splits, heads, rows, padded head_dim] parts of dq
};

struct AttentionCached {
  const AttentionShape& shape;
  ConstView qkv, past;
  View cache, out;
  bool append_only;  ///< the attention itself is done elsewhere
};

/// What a thread does of a group in the cache.
struct CachedPart {
  int64_t begin, end;  ///< its query heads that attend
  bool appends;        ///< copies keys and values to the cache first
};

/// Rows of f32 tiles are padded to whole vectors of the widest instruction set.
inline int64_t padded_head_dim(int64_t head_dim) { return (head_dim + 15) / 16 * 16; }

/// Floats that one thread needs for sequences of at most `length` rows.
int64_t attention_forward_floats(int64_t length, const AttentionShape& shape);
int64_t attention_backward_floats(int64_t length, const AttentionShape& shape);
/// The same of attention_cached(), whatever the sequences.
int64_t attention_cached_floats(const AttentionShape& shape);

/// Scratch of any attention operator; arguments as in Ops::scratch_bytes().
size_t attention_scratch_bytes(int64_t rows, const AttentionShape& shape, int threads);

}  // namespace trireme
