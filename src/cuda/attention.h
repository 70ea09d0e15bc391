#pragma once
// What the attention kernels share: arguments, where a head's rows are, masks.
// Legend: i query row, j key row; S = cap(scale q k^T); P = softmax(S); M = dropout mask / (1 - rate);
// D = sum_c dout_c out_c; dS = P (M dP - D) times the cap's slope.

#include <cmath>

#include "cuda/launch.h"
#include "cuda/philox.h"
#include "ops/ops.h"

namespace trireme {

constexpr float kLog2E = 1.44269504f, kLn2 = 0.69314718f;

struct AttentionDropout {
  gpu::Global<const int64_t> sample;
  gpu::Global<const int32_t> position;
  uint64_t key = 0;
  uint32_t threshold = 0;  ///< 0: no dropout
  float scale = 1;         ///< of kept values
  int first_head = 0;
};

template <class T>
struct AttentionArguments {
  gpu::Global<const T> qkv, out, dout;
  gpu::Global<T> to;  ///< out, or dqkv in backward
  gpu::Global<float> lse, delta;
  gpu::Global<const int32_t> offsets;
  int64_t rows;
  int sequences, heads, kv_heads, head_dim;
  bool causal;
  int window;  ///< keys that a query sees; without a window all
  float scale, cap;
  AttentionDropout dropout;

  TRIREME_DEVICE int group() const { return heads / kv_heads; }
  TRIREME_DEVICE int64_t row_stride() const { return static_cast<int64_t>(kv_heads) * (group() + 2) * head_dim; }
  /// The place in row 0; heads of a group share the key and value that follow their queries.
  TRIREME_DEVICE int64_t query_at(int head) const {
    return static_cast<int64_t>(head / group() * (group() + 2) + head % group()) * head_dim;
  }
  TRIREME_DEVICE int64_t key_at(int kv_head) const {
    return static_cast<int64_t>(kv_head * (group() + 2) + group()) * head_dim;
  }
  TRIREME_DEVICE int64_t value_at(int kv_head) const { return key_at(kv_head) + head_dim; }
  TRIREME_DEVICE int64_t out_stride() const { return static_cast<int64_t>(heads) * head_dim; }
};

/// Keys [first, end) that query i of a sequence of `length` rows sees.
struct Seen {
  int first, end;
};
template <class T>
TRIREME_DEVICE Seen seen_keys(const AttentionArguments<T>& a, int i, int length) {
  return {i >= a.window ? i - a.window + 1 : 0, a.causal && i < length ? i + 1 : length};
}

/// tanh to 3e-7.
TRIREME_DEVICE float tanh_of(float x) {
  const float e = gpu::exp2_fast(-2 * kLog2E * fabsf(x));
  return x != x ? x : copysignf((1 - e) * gpu::reciprocal(1 + e), x);
}

/// S of scale q . k.
template <class T>
TRIREME_DEVICE float capped(const AttentionArguments<T>& a, float score) {
  return a.cap > 0 ? a.cap * tanh_of(score / a.cap) : score;
}

/// Random words of four keys for a query (Dropout of ops/ops.h).
template <class T>
TRIREME_DEVICE gpu::Words attention_words(const AttentionArguments<T>& a, uint32_t key_position,
                                          uint32_t query_position, uint64_t sample, int head) {
  return gpu::philox_words(
      a.dropout.key, key_position / 4, query_position, static_cast<uint32_t>(sample),
      (static_cast<uint32_t>(sample >> 32) & 0xFFFF) | static_cast<uint32_t>(a.dropout.first_head + head) << 16);
}

/// M of one pair.
template <class T>
TRIREME_DEVICE float attention_mask(const AttentionArguments<T>& a, uint32_t key_position, uint32_t query_position,
                                    uint64_t sample, int head) {
  if (a.dropout.threshold == 0) return 1;
  const gpu::Words words = attention_words(a, key_position, query_position, sample, head);
  const uint32_t which = key_position % 4;
  const uint32_t word = which == 0 ? words.w[0] : which == 1 ? words.w[1] : which == 2 ? words.w[2] : words.w[3];
  return word >= a.dropout.threshold ? a.dropout.scale : 0;
}

/// The sequence of a row.
struct SequenceRows {
  int begin, end;
};
template <class T>
TRIREME_DEVICE SequenceRows sequence_of(const AttentionArguments<T>& a, int row) {
  int low = 0, high = a.sequences;  // offsets[low] <= row < offsets[high]
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (a.offsets[middle] <= row) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return {a.offsets[low], a.offsets[low + 1]};
}

/// Kernels on tensor cores (attention_tiles.h). Whether they take these arguments.
template <class T>
bool takes_tiles(const AttentionArguments<T>& a);
template <class T>
void run_attention_tiles(gpu::Stream, const AttentionArguments<T>& a);
template <class T>
void run_attention_backward_tiles(gpu::Stream, const AttentionArguments<T>& a);

}  // namespace trireme
