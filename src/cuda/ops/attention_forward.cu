// Attention on tensor cores, forward.

#include "cuda/attention_tiles.h"

namespace trireme {
namespace {

using namespace gpu;

/// Groups of 16 queries per warp.
template <int D>
constexpr int kForwardGroups = D <= 128 ? 2 : 1;
/// Keys of a tile.
template <int D>
constexpr int kForwardKeys = D <= 96 ? 64 : 32;

template <class T, int D>
constexpr int kForwardBytes = 2 * SharedMemory::bytes<T, 2 * kForwardKeys<D> * kPitch<D>> +
                              SharedMemory::bytes<T, kWarps * 16 * kForwardGroups<D> * kPitch<D>>;

template <class T, int D, bool kDropout, bool kCap>
TRIREME_KERNEL forward_tiles(AttentionArguments<T> a) {
  constexpr int kGroups = kForwardGroups<D>, kKeys = kForwardKeys<D>, kRows = kWarps * 16 * kGroups;
  constexpr int kStage = kKeys * kPitch<D>;
  SharedMemory memory;
  const auto keys = memory.take<T, 2 * kStage>("keys");
  const auto values = memory.take<T, 2 * kStage>("values");
  const auto queries = memory.take<T, kRows * kPitch<D>>("queries");
  const Tile tile = find_tile<kRows>(a, block_x(), a.causal);
  if (tile.length == 0) return;
  const int head = block_y(), kv_head = head / a.group(), lane = thread() % kWarp, warp = thread() / kWarp;
  const int g = lane >> 2, t = 2 * (lane & 3);
  const int64_t stride = a.row_stride(), base = tile.begin * stride;
  const int last = (tile.first + kRows < tile.length ? tile.first + kRows : tile.length) - 1;
  const int begin = seen_keys(a, tile.first, tile.length).first / kKeys * kKeys;
  const int end = seen_keys(a, last, tile.length).end;
  const auto load = [&](int first, int stage) {
    load_tile<D, kKeys>(keys, stage * kStage, a.qkv, stride, base + a.key_at(kv_head), first, tile.length, a.head_dim);
    load_tile<D, kKeys>(values, stage * kStage, a.qkv, stride, base + a.value_at(kv_head), first, tile.length,
                        a.head_dim);
    copy_async_commit();
  };
  load_tile<D, kRows>(queries, 0, a.qkv, stride, base + a.query_at(head), tile.first, tile.length, a.head_dim);
  load(begin, 0);

  // Without a cap, the largest product is kept as it is and scaled with the others.
  const float factor = kCap ? 1 : a.scale * kLog2E;
  const int first_row = tile.first + warp * kGroups * 16 + g;  // of row h of group m: + 16 m + 8 h
  float out[kGroups][D / 8][4] = {}, most[kGroups][2], sum[kGroups][2] = {};
  Drawn drawn[kGroups][2];
  uint32_t first_position = 0;
  if constexpr (kDropout) first_position = static_cast<uint32_t>(a.dropout.position[tile.begin]);
  TRIREME_UNROLL
  for (int m = 0; m < kGroups; ++m) {
    TRIREME_UNROLL
    for (int h = 0; h < 2; ++h) {
      most[m][h] = -INFINITY;
      const int row = first_row + 16 * m + 8 * h;
      if constexpr (kDropout)
        if (row < tile.length)
          drawn[m][h] = {static_cast<uint32_t>(a.dropout.position[tile.begin + row]),
                         static_cast<uint64_t>(a.dropout.sample[tile.begin + row])};
    }
  }
  int stage = 0;
  for (int first = begin; first < end; first += kKeys, stage ^= 1) {
    copy_async_wait<0>();
    sync_block();
    if (first + kKeys < end) load(first + kKeys, stage ^ 1);
    const bool edge = first + kKeys > seen_keys(a, tile.first, tile.length).end || first < seen_keys(a, last, 0).first;
    float s[kGroups][kKeys / 8][4] = {};
    multiply_transposed<D, kGroups, kKeys>(
        s, [&](uint32_t(&r)[4], int m, int k) { load_left<D>(r, queries, 0, (warp * kGroups + m) * 16, 16 * k); }, keys,
        stage * kStage);
    TRIREME_UNROLL
    for (int m = 0; m < kGroups; ++m) {
      TRIREME_UNROLL
      for (int h = 0; h < 2; ++h) {
        if constexpr (kCap) {
          TRIREME_UNROLL
          for (int n = 0; n < kKeys / 8; ++n) {
            TRIREME_UNROLL
            for (int c = 0; c < 2; ++c) s[m][n][2 * h + c] = score_of<true>(a, s[m][n][2 * h + c]).value;
          }
        }
        if (edge) {
          const Seen seen = seen_keys(a, first_row + 16 * m + 8 * h, tile.length);
          TRIREME_UNROLL
          for (int n = 0; n < kKeys / 8; ++n) {
            TRIREME_UNROLL
            for (int c = 0; c < 2; ++c) {
              const int j = first + 8 * n + t + c;
              if (j < seen.first || j >= seen.end) s[m][n][2 * h + c] = -INFINITY;
            }
          }
        }
        float now = most[m][h];
        TRIREME_UNROLL
        for (int n = 0; n < kKeys / 8; ++n) now = fmaxf(now, fmaxf(s[m][n][2 * h], s[m][n][2 * h + 1]));
        now = fmaxf(now, shuffle_xor(now, 1));
        now = fmaxf(now, shuffle_xor(now, 2));
        const float origin = now == -INFINITY ? 0 : now * factor;
        const float shrink = exp2_fast(most[m][h] * factor - origin);
        most[m][h] = now;
        TRIREME_UNROLL
        for (int n = 0; n < D / 8; ++n) {
          out[m][n][2 * h] *= shrink;
          out[m][n][2 * h + 1] *= shrink;
        }
        float added = 0;
        TRIREME_UNROLL
        for (int n = 0; n < kKeys / 8; ++n) {
          TRIREME_UNROLL
          for (int c = 0; c < 2; ++c) {
            float& x = s[m][n][2 * h + c];
            x = exp2_fast(x * factor - origin);
            added += x;
          }
        }
        sum[m][h] = sum[m][h] * shrink + added;
      }
      if constexpr (kDropout) {
        TRIREME_UNROLL
        for (int n = 0; n < kKeys / 8; ++n) {
          const uint32_t kept = kept_pairs(a, first_position + static_cast<uint32_t>(first + 8 * n), drawn[m], head);
          TRIREME_UNROLL
          for (int r = 0; r < 4; ++r) s[m][n][r] = (kept >> r & 1) != 0 ? s[m][n][r] : 0;
        }
      }
    }
    multiply<D, kGroups, kKeys>(out, s, values, stage * kStage);
  }
  TRIREME_UNROLL
  for (int m = 0; m < kGroups; ++m) {
    TRIREME_UNROLL
    for (int h = 0; h < 2; ++h) {
      float total = sum[m][h];
      total += shuffle_xor(total, 1);
      total += shuffle_xor(total, 2);
      const int row = first_row + 16 * m + 8 * h;
      if (row >= tile.length) continue;
      const float inverse = (kDropout ? a.dropout.scale : 1.0f) / total;
      const int64_t i = tile.begin + row, at = i * a.out_stride() + static_cast<int64_t>(head) * a.head_dim + t;
      TRIREME_UNROLL
      for (int n = 0; n < D / 8; ++n)
        if (8 * n + t < a.head_dim)
          store_pair(round_pair(out[m][n][2 * h] * inverse, out[m][n][2 * h + 1] * inverse, T{}), a.to, at + 8 * n);
      if (t == 0) a.lse[head * a.rows + i] = most[m][h] * (factor * kLn2) + logf(total);
    }
  }
}

template <class T, int D, bool kDropout, bool kCap>
void run_forward(Stream stream, const AttentionArguments<T>& a) {
  launch("attention", stream, tile_grid(a, kWarps * 16 * kForwardGroups<D>, a.heads), kThreads, kForwardBytes<T, D>,
         forward_tiles<T, D, kDropout, kCap>, a);
}

}  // namespace

template <class T>
bool takes_tiles(const AttentionArguments<T>& a) {
  const auto aligned = [](auto x) { return reinterpret_cast<uintptr_t>(x.data) % 16 == 0; };
  return a.head_dim % 8 == 0 && a.head_dim >= 16 && a.head_dim <= (small_shared_memory() ? 128 : 256) &&
         aligned(a.qkv) && aligned(a.to) && aligned(a.dout) && !(a.cap > 0 && a.dropout.threshold > 0);
}

template <class T>
void run_attention_tiles(gpu::Stream stream, const AttentionArguments<T>& a) {
  with_variant(a, [&](auto dropout, auto cap, auto d) { run_forward<T, d(), dropout(), cap()>(stream, a); });
}

template bool takes_tiles(const AttentionArguments<bf16_t>&);
template bool takes_tiles(const AttentionArguments<f16_t>&);
template void run_attention_tiles(gpu::Stream, const AttentionArguments<bf16_t>&);
template void run_attention_tiles(gpu::Stream, const AttentionArguments<f16_t>&);

}  // namespace trireme
