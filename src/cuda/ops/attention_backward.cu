// Attention on tensor cores, backward: a pass over keys for dq and one over queries for dk and dv, 7 products instead
// of 5, so that every sum has one order.

#include "cuda/attention_tiles.h"

namespace trireme {
namespace {

using namespace gpu;

constexpr int kBackwardRows = kWarps * 16;
/// Columns of a tile that passes.
template <int D>
constexpr int backward_columns(bool small_shared_memory) {
  return D < 128 || (D == 128 && !small_shared_memory) ? 64 : 32;
}

/// dq: queries and their dout stay, keys and values pass.
template <class T, int D, int kColumns>
constexpr int kQueryBytes =
    2 * SharedMemory::bytes<T, 2 * kColumns * kPitch<D>> + 2 * SharedMemory::bytes<T, kBackwardRows * kPitch<D>>;

template <class T, int D, bool kDropout, bool kCap>
TRIREME_KERNEL query_gradient_tiles(AttentionArguments<T> a) {
  constexpr int kColumns = backward_columns<D>(kSmallSharedMemory), kStage = kColumns * kPitch<D>;
  SharedMemory memory;
  const auto keys = memory.take<T, 2 * kStage>("keys");
  const auto values = memory.take<T, 2 * kStage>("values");
  const auto queries = memory.take<T, kBackwardRows * kPitch<D>>("queries");
  const auto douts = memory.take<T, kBackwardRows * kPitch<D>>("douts");
  const Tile tile = find_tile<kBackwardRows>(a, block_x(), a.causal);
  if (tile.length == 0) return;
  const int head = block_y(), kv_head = head / a.group(), lane = thread() % kWarp, warp = thread() / kWarp;
  const int g = lane >> 2, t = 2 * (lane & 3);
  const int64_t stride = a.row_stride(), base = tile.begin * stride;
  const int last = (tile.first + kBackwardRows < tile.length ? tile.first + kBackwardRows : tile.length) - 1;
  const int begin = seen_keys(a, tile.first, tile.length).first / kColumns * kColumns;
  const int end = seen_keys(a, last, tile.length).end;
  const auto load = [&](int first, int stage) {
    load_tile<D, kColumns>(keys, stage * kStage, a.qkv, stride, base + a.key_at(kv_head), first, tile.length,
                           a.head_dim);
    load_tile<D, kColumns>(values, stage * kStage, a.qkv, stride, base + a.value_at(kv_head), first, tile.length,
                           a.head_dim);
    copy_async_commit();
  };
  load_tile<D, kBackwardRows>(queries, 0, a.qkv, stride, base + a.query_at(head), tile.first, tile.length, a.head_dim);
  load_tile<D, kBackwardRows>(douts, 0, a.dout, a.out_stride(),
                              tile.begin * a.out_stride() + static_cast<int64_t>(head) * a.head_dim, tile.first,
                              tile.length, a.head_dim);
  load(begin, 0);

  const int first_row = tile.first + warp * 16 + g;
  float lse[2], delta[2], dq[1][D / 8][4] = {};
  Drawn drawn[2];
  uint32_t first_position = 0;
  if constexpr (kDropout) first_position = static_cast<uint32_t>(a.dropout.position[tile.begin]);
  TRIREME_UNROLL
  for (int h = 0; h < 2; ++h) {
    const int row = first_row + 8 * h;
    const bool valid = row < tile.length;
    lse[h] = valid ? a.lse[head * a.rows + tile.begin + row] * kLog2E : INFINITY;
    delta[h] = valid ? a.delta[head * a.rows + tile.begin + row] : 0;
    if constexpr (kDropout)
      if (valid)
        drawn[h] = {static_cast<uint32_t>(a.dropout.position[tile.begin + row]),
                    static_cast<uint64_t>(a.dropout.sample[tile.begin + row])};
  }
  int stage = 0;
  for (int first = begin; first < end; first += kColumns, stage ^= 1) {
    copy_async_wait<0>();
    sync_block();
    if (first + kColumns < end) load(first + kColumns, stage ^ 1);
    const bool edge =
        first + kColumns > seen_keys(a, tile.first, tile.length).end || first < seen_keys(a, last, 0).first;
    float s[1][kColumns / 8][4] = {}, dp[1][kColumns / 8][4] = {};
    multiply_transposed<D, 1, kColumns>(
        s, [&](uint32_t(&r)[4], int, int k) { load_left<D>(r, queries, 0, warp * 16, 16 * k); }, keys, stage * kStage);
    multiply_transposed<D, 1, kColumns>(
        dp, [&](uint32_t(&r)[4], int, int k) { load_left<D>(r, douts, 0, warp * 16, 16 * k); }, values, stage * kStage);
    if (!kCap && edge) {
      TRIREME_UNROLL
      for (int h = 0; h < 2; ++h) {
        const Seen seen = seen_keys(a, first_row + 8 * h, tile.length);
        TRIREME_UNROLL
        for (int n = 0; n < kColumns / 8; ++n) {
          TRIREME_UNROLL
          for (int c = 0; c < 2; ++c) {
            const int j = first + 8 * n + t + c;
            if (j < seen.first || j >= seen.end) s[0][n][2 * h + c] = -INFINITY;
          }
        }
      }
    }
    TRIREME_UNROLL
    for (int n = 0; n < kColumns / 8; ++n) {
      uint32_t kept = 15;
      if constexpr (kDropout) kept = kept_pairs(a, first_position + static_cast<uint32_t>(first + 8 * n), drawn, head);
      TRIREME_UNROLL
      for (int r = 0; r < 4; ++r) {
        const int h = r / 2;
        const Score score = score_of<kCap>(a, s[0][n][r]);
        float p = exp2_fast(score.value - lse[h]), dscore = dp[0][n][r];
        if constexpr (kCap) {
          const Seen seen = seen_keys(a, first_row + 8 * h, tile.length);
          const int j = first + 8 * n + t + r % 2;
          if (j < seen.first || j >= seen.end) p = 0;
        }
        if constexpr (kDropout) dscore = (kept >> r & 1) != 0 ? dscore * a.dropout.scale : 0;
        s[0][n][r] = p * (dscore - delta[h]);
        if constexpr (kCap) s[0][n][r] *= score.slope;
      }
    }
    multiply<D, 1, kColumns>(dq, s, keys, stage * kStage);
  }
  TRIREME_UNROLL
  for (int h = 0; h < 2; ++h) {
    const int row = first_row + 8 * h;
    if (row >= tile.length) continue;
    TRIREME_UNROLL
    for (int n = 0; n < D / 8; ++n)
      if (8 * n + t < a.head_dim)
        store_pair(round_pair(dq[0][n][2 * h] * a.scale, dq[0][n][2 * h + 1] * a.scale, T{}), a.to,
                   base + row * stride + a.query_at(head) + 8 * n + t);
  }
}

/// dk and dv: keys and values stay, queries and their dout pass. Rows of the products are keys, columns queries.
template <class T, int D, int kColumns>
constexpr int kKeyBytes = kQueryBytes<T, D, kColumns> + 2 * SharedMemory::bytes<float, kColumns>;

/// kParts: 3: both; 1: dk; 2: dv, where both would take more registers than there are.
template <class T, int D, bool kDropout, bool kCap, int kParts>
TRIREME_KERNEL key_gradient_tiles(AttentionArguments<T> a) {
  constexpr int kQueries = backward_columns<D>(kSmallSharedMemory), kStage = kQueries * kPitch<D>;
  constexpr bool kWithKeys = (kParts & 1) != 0, kWithValues = (kParts & 2) != 0;
  SharedMemory memory;
  const auto queries = memory.take<T, 2 * kStage>("queries");
  const auto douts = memory.take<T, 2 * kStage>("douts");
  const auto keys = memory.take<T, kBackwardRows * kPitch<D>>("keys");
  const auto values = memory.take<T, kBackwardRows * kPitch<D>>("values");
  const auto lses = memory.take<float, kQueries>("lses");
  const auto deltas = memory.take<float, kQueries>("deltas");
  const Tile tile = find_tile<kBackwardRows>(a, block_x(), false);
  if (tile.length == 0) return;
  const int kv_head = block_y(), lane = thread() % kWarp, warp = thread() / kWarp;
  const int g = lane >> 2, t = 2 * (lane & 3);
  const int64_t stride = a.row_stride(), base = tile.begin * stride, out_stride = a.out_stride();
  const int last = (tile.first + kBackwardRows < tile.length ? tile.first + kBackwardRows : tile.length) - 1;
  const int first_query = a.causal ? tile.first / kQueries * kQueries : 0;
  const int end_query = a.window < tile.length - last ? last + a.window : tile.length;
  const int per_head = (end_query - first_query + kQueries - 1) / kQueries, steps = per_head * a.group();
  const auto load = [&](int step, int stage) {
    const int head = kv_head * a.group() + step / per_head, first = first_query + step % per_head * kQueries;
    load_tile<D, kQueries>(queries, stage * kStage, a.qkv, stride, base + a.query_at(head), first, tile.length,
                           a.head_dim);
    load_tile<D, kQueries>(douts, stage * kStage, a.dout, out_stride,
                           tile.begin * out_stride + static_cast<int64_t>(head) * a.head_dim, first, tile.length,
                           a.head_dim);
    copy_async_commit();
  };
  load_tile<D, kBackwardRows>(keys, 0, a.qkv, stride, base + a.key_at(kv_head), tile.first, tile.length, a.head_dim);
  load_tile<D, kBackwardRows>(values, 0, a.qkv, stride, base + a.value_at(kv_head), tile.first, tile.length,
                              a.head_dim);
  load(0, 0);

  float dk[1][kWithKeys ? D / 8 : 1][4] = {}, dv[1][kWithValues ? D / 8 : 1][4] = {};
  const int first_row = tile.first + warp * 16;
  uint32_t first_position = 0;
  if constexpr (kDropout) first_position = static_cast<uint32_t>(a.dropout.position[tile.begin]);
  for (int step = 0; step < steps; ++step) {
    const int stage = step & 1, head = kv_head * a.group() + step / per_head;
    const int first = first_query + step % per_head * kQueries;
    copy_async_wait<0>();
    sync_block();
    if (step + 1 < steps) load(step + 1, stage ^ 1);
    if (thread() < kQueries) {
      const bool valid = first + thread() < tile.length;
      const int64_t at = head * a.rows + tile.begin + first + thread();
      lses[thread()] = valid ? a.lse[at] * kLog2E : INFINITY;
      deltas[thread()] = valid ? a.delta[at] : 0;
    }
    float s[1][kQueries / 8][4] = {}, dp[1][kQueries / 8][4] = {};
    multiply_transposed<D, 1, kQueries>(
        s, [&](uint32_t(&r)[4], int, int k) { load_left<D>(r, keys, 0, warp * 16, 16 * k); }, queries, stage * kStage);
    if constexpr (kWithKeys)
      multiply_transposed<D, 1, kQueries>(
          dp, [&](uint32_t(&r)[4], int, int k) { load_left<D>(r, values, 0, warp * 16, 16 * k); }, douts,
          stage * kStage);
    sync_block();
    const bool edge = (a.causal && first < tile.first + kBackwardRows) || first + kQueries - tile.first > a.window;
    if (!kCap && edge) {
      TRIREME_UNROLL
      for (int n = 0; n < kQueries / 8; ++n) {
        TRIREME_UNROLL
        for (int r = 0; r < 4; ++r) {
          const int i = first + 8 * n + t + r % 2, j = first_row + g + r / 2 * 8;
          if ((a.causal && j > i) || i - j >= a.window) s[0][n][r] = -INFINITY;
        }
      }
    }
    TRIREME_UNROLL
    for (int n = 0; n < kQueries / 8; ++n) {
      uint32_t kept = 15;
      if constexpr (kDropout) {
        const int own = first + 8 * n + lane % 8;  // the query that this lane draws for
        Drawn drawn;
        if (own < tile.length)
          drawn = {static_cast<uint32_t>(a.dropout.position[tile.begin + own]),
                   static_cast<uint64_t>(a.dropout.sample[tile.begin + own])};
        kept = kept_columns(a, first_position + static_cast<uint32_t>(first_row), drawn, head);
      }
      TRIREME_UNROLL
      for (int c = 0; c < 2; ++c) {
        const float lse = lses[8 * n + t + c], delta = kWithKeys ? deltas[8 * n + t + c] : 0.0f;
        TRIREME_UNROLL
        for (int h = 0; h < 2; ++h) {
          float &own = s[0][n][2 * h + c], &dscore = dp[0][n][2 * h + c];
          const Score score = score_of<kCap>(a, own);
          float p = exp2_fast(score.value - lse), mask = 1;
          if constexpr (kCap) {
            const int i = first + 8 * n + t + c, j = first_row + g + 8 * h;
            if ((a.causal && j > i) || i - j >= a.window) p = 0;
          }
          if constexpr (kDropout) mask = (kept >> (2 * h + c) & 1) != 0 ? a.dropout.scale : 0;
          own = p * mask;
          if constexpr (kWithKeys) dscore = p * (dscore * mask - delta);
          if constexpr (kWithKeys && kCap) dscore *= score.slope;
        }
      }
    }
    if constexpr (kWithValues) multiply<D, 1, kQueries>(dv, s, douts, stage * kStage);
    if constexpr (kWithKeys) multiply<D, 1, kQueries>(dk, dp, queries, stage * kStage);
  }
  TRIREME_UNROLL
  for (int h = 0; h < 2; ++h) {
    const int row = first_row + g + 8 * h;
    if (row >= tile.length) continue;
    const int64_t at = base + row * stride + t;
    TRIREME_UNROLL
    for (int n = 0; n < D / 8; ++n)
      if (8 * n + t < a.head_dim) {
        if constexpr (kWithKeys)
          store_pair(round_pair(dk[0][n][2 * h] * a.scale, dk[0][n][2 * h + 1] * a.scale, T{}), a.to,
                     at + a.key_at(kv_head) + 8 * n);
        if constexpr (kWithValues)
          store_pair(round_pair(dv[0][n][2 * h], dv[0][n][2 * h + 1], T{}), a.to, at + a.value_at(kv_head) + 8 * n);
      }
  }
}

template <class T, int D, bool kDropout, bool kCap>
void run_backward(Stream stream, const AttentionArguments<T>& a) {
  constexpr int kLarge = backward_columns<D>(false), kSmall = backward_columns<D>(true);
  const bool small = small_shared_memory();
  const auto run = [&](const char* name, int heads, int bytes, void (*kernel)(AttentionArguments<T>)) {
    launch(name, stream, tile_grid(a, kBackwardRows, heads), kThreads, bytes, kernel, a);
  };
  run("attention_query_gradient", a.heads, small ? kQueryBytes<T, D, kSmall> : kQueryBytes<T, D, kLarge>,
      query_gradient_tiles<T, D, kDropout, kCap>);
  const int bytes = small ? kKeyBytes<T, D, kSmall> : kKeyBytes<T, D, kLarge>;
  if constexpr (D <= 128) {
    run("attention_key_gradient", a.kv_heads, bytes, key_gradient_tiles<T, D, kDropout, kCap, 3>);
  } else {
    run("attention_key_gradient", a.kv_heads, bytes, key_gradient_tiles<T, D, kDropout, kCap, 1>);
    run("attention_value_gradient", a.kv_heads, bytes, key_gradient_tiles<T, D, kDropout, kCap, 2>);
  }
}

}  // namespace

template <class T>
void run_attention_backward_tiles(gpu::Stream stream, const AttentionArguments<T>& a) {
  with_variant(a, [&](auto dropout, auto cap, auto d) { run_backward<T, d(), dropout(), cap()>(stream, a); });
}

template void run_attention_backward_tiles(gpu::Stream, const AttentionArguments<bf16_t>&);
template void run_attention_backward_tiles(gpu::Stream, const AttentionArguments<f16_t>&);

}  // namespace trireme
