// Attention on tensor cores: mma m16n8k16, tiles of keys (or queries) in shared memory, copied while the tile before is
// multiplied. Source: Dao 2023, FlashAttention-2. Backward has a pass over keys for dq and one over queries for dk and
// dv, 7 products instead of 5, so that every sum has one order.
//
// Legend, fragments of a warp: lane = 4 g + t / 2 holds of a 16 x 8 result rows g and g + 8, columns t and t + 1.

#include "cuda/attention.h"

namespace trireme {
namespace {

using namespace gpu;

constexpr int kWarps = 4, kThreads = kWarps * kWarp;

/// A tile of rows of head size D in shared memory; 16 more bytes per row spread rows over the banks.
template <int D>
constexpr int kPitch = D + 8;

/// Rows [first, first + count) of a head, from `begin` + first on; zeros from row `end` and column head_dim on.
template <int D, int kRows, class T, int N>
TRIREME_DEVICE void load_tile(Shared<T, N> tile, int at, Global<const T> from, int64_t stride, int64_t column,
                              int first, int end, int head_dim) {
  constexpr int kPieces = D / 8;
  TRIREME_UNROLL
  for (int i = thread(); i < kRows * kPieces; i += kThreads) {
    const int row = i / kPieces, piece = i % kPieces * 8;
    const bool valid = first + row < end && piece < head_dim;
    copy_async16(tile, at + row * kPitch<D> + piece, from, valid ? (first + row) * stride + column + piece : int64_t{0},
                 valid);
  }
}

/// Fragment of 16 rows and 16 columns of a tile: left operand.
template <int D, class T, int N>
TRIREME_DEVICE void load_left(uint32_t (&r)[4], Shared<T, N> tile, int at, int row, int column) {
  const int lane = thread() % kWarp;
  ldmatrix_x4(r, tile, at + (row + (lane & 15)) * kPitch<D> + column + 8 * (lane >> 4));
}

/// s[m][n] += left[m] (16 x D) tile^T for kGroups groups of 16 rows: columns of s are rows of the tile.
template <int D, int kGroups, int kTileRows, class T, int N, class Left>
TRIREME_DEVICE void multiply_transposed(float (&s)[kGroups][kTileRows / 8][4], Left left, Shared<T, N> tile, int at) {
  const int lane = thread() % kWarp;
  const int row = (lane & 7) + 8 * (lane >> 4), column = 8 * (lane >> 3 & 1);
  TRIREME_UNROLL
  for (int k = 0; k < D / 16; ++k) {
    uint32_t a[kGroups][4];
    TRIREME_UNROLL
    for (int m = 0; m < kGroups; ++m) left(a[m], m, k);
    TRIREME_UNROLL
    for (int n = 0; n < kTileRows / 16; ++n) {
      uint32_t b[4];
      ldmatrix_x4(b, tile, at + (16 * n + row) * kPitch<D> + 16 * k + column);
      TRIREME_UNROLL
      for (int m = 0; m < kGroups; ++m) {
        mma(s[m][2 * n], a[m], b[0], b[1], T{});
        mma(s[m][2 * n + 1], a[m], b[2], b[3], T{});
      }
    }
  }
}

/// y[m][n] += p[m] (16 x tile rows) tile: p in the layout of a product's result.
template <int D, int kGroups, int kTileRows, class T, int N>
TRIREME_DEVICE void multiply(float (&y)[kGroups][D / 8][4], const float (&p)[kGroups][kTileRows / 8][4],
                             Shared<T, N> tile, int at) {
  const int lane = thread() % kWarp;
  TRIREME_UNROLL
  for (int k = 0; k < kTileRows / 16; ++k) {
    uint32_t a[kGroups][4];
    TRIREME_UNROLL
    for (int m = 0; m < kGroups; ++m) {
      TRIREME_UNROLL
      for (int r = 0; r < 4; ++r)
        a[m][r] = round_pair(p[m][2 * k + r / 2][2 * (r % 2)], p[m][2 * k + r / 2][2 * (r % 2) + 1], T{});
    }
    TRIREME_UNROLL
    for (int n = 0; n < D / 16; ++n) {
      uint32_t b[4];
      ldmatrix_x4_transposed(b, tile, at + (16 * k + (lane & 15)) * kPitch<D> + 16 * n + 8 * (lane >> 4));
      TRIREME_UNROLL
      for (int m = 0; m < kGroups; ++m) {
        mma(y[m][2 * n], a[m], b[0], b[1], T{});
        mma(y[m][2 * n + 1], a[m], b[2], b[3], T{});
      }
    }
  }
}

/// A block's rows: [first, first + kRows) of the sequence that begins at row `begin`.
struct Tile {
  int begin, length, first;
};

/// The n-th tile of kRows rows of all sequences; length 0: there are fewer. Heavy tiles first: from_back.
template <int kRows, class T>
TRIREME_DEVICE Tile find_tile(const AttentionArguments<T>& a, int n, bool from_back) {
  const int lane = thread() % kWarp;
  int before = 0;
  for (int first = 0; first < a.sequences; first += kWarp) {
    const int s = first + lane;
    const int begin = s < a.sequences ? a.offsets[s] : 0, length = s < a.sequences ? a.offsets[s + 1] - begin : 0;
    const int tiles = (length + kRows - 1) / kRows;
    int sum = tiles;
    TRIREME_UNROLL
    for (int distance = 1; distance < kWarp; distance *= 2) {
      const int below = shuffle_up(sum, distance);
      if (lane >= distance) sum += below;
    }
    const uint32_t past = ballot(n < before + sum);
    if (past != 0) {
      int which = 0;
      while ((past >> which & 1) == 0) ++which;
      const int number = n - before - (shuffle(sum, which) - shuffle(tiles, which)), of = shuffle(tiles, which);
      return {shuffle(begin, which), shuffle(length, which), (from_back ? of - 1 - number : number) * kRows};
    }
    before += shuffle(sum, kWarp - 1);
  }
  return {0, 0, 0};
}

/// What dropout needs of a query.
struct Drawn {
  uint32_t position = 0;
  uint64_t sample = 0;
};

/// Which of four keys a query keeps: bit k for key_position / 4 * 4 + k.
template <class T>
TRIREME_DEVICE uint32_t kept_keys(const AttentionArguments<T>& a, uint32_t key_position, Drawn query, int head) {
  const Words words = attention_words(a, key_position, query.position, query.sample, head);
  uint32_t kept = 0;
  TRIREME_UNROLL
  for (int k = 0; k < 4; ++k) kept |= static_cast<uint32_t>(words.w[k] >= a.dropout.threshold ? 1 : 0) << k;
  return kept;
}

/// Which of keys t and t + 1, of eight from key_position on, queries g and g + 8 keep: bits 0 and 1, then 2 and 3.
/// Where four keys begin at a multiple of 4, each of the four lanes that share the queries draws for four keys of one.
template <class T>
TRIREME_DEVICE uint32_t kept_pairs(const AttentionArguments<T>& a, uint32_t key_position, const Drawn (&query)[2],
                                   int head) {
  const uint32_t q = static_cast<uint32_t>(thread()) & 3;
  if (key_position % 4 == 0) {
    const Drawn mine = q % 2 == 0 ? query[0] : query[1];
    const uint32_t own = kept_keys(a, key_position + 4 * (q >> 1), mine, head);
    const uint32_t other = shuffle_xor(own, 1);
    return q % 2 == 0 ? (own & 3) | (other & 3) << 2 : other >> 2 | own >> 2 << 2;
  }
  uint32_t kept = 0;
  TRIREME_UNROLL
  for (uint32_t bit = 0; bit < 4; ++bit) {
    const uint32_t key = key_position + 2 * q + bit % 2;
    kept |= (kept_keys(a, key, query[bit / 2], head) >> key % 4 & 1) << bit;
  }
  return kept;
}

/// The same where rows are keys and columns queries: which of queries t and t + 1, of eight whose `drawn` are in shared
/// memory, keep keys g and g + 8, of 16 from key_position on: bits 0 and 1, then 2 and 3. Each lane draws for four keys
/// of one query.
template <class T>
TRIREME_DEVICE uint32_t kept_columns(const AttentionArguments<T>& a, uint32_t key_position, Drawn drawn, int head) {
  const auto lane = static_cast<uint32_t>(thread()) % kWarp;
  const uint32_t g = lane >> 2, t = 2 * (lane & 3);
  uint32_t kept = 0;
  if (key_position % 4 == 0) {
    // Lane 8 k + i: keys 4 k to 4 k + 3 and query i.
    const uint32_t own = kept_keys(a, key_position + 4 * (lane >> 3), drawn, head);
    uint32_t votes[4];
    TRIREME_UNROLL
    for (int k = 0; k < 4; ++k) votes[k] = ballot((own >> k & 1) != 0);
    const uint32_t of_key = g % 4 == 0 ? votes[0] : g % 4 == 1 ? votes[1] : g % 4 == 2 ? votes[2] : votes[3];
    const uint32_t low = of_key >> (8 * (g / 4) + t) & 3, high = of_key >> (8 * (g / 4 + 2) + t) & 3;
    return low | high << 2;
  }
  TRIREME_UNROLL
  for (uint32_t bit = 0; bit < 4; ++bit) {
    const uint32_t key = key_position + g + 8 * (bit / 2);
    Drawn query;
    query.position = shuffle(drawn.position, static_cast<int>(t + bit % 2));
    query.sample = shuffle(drawn.sample, static_cast<int>(t + bit % 2));
    kept |= (kept_keys(a, key, query, head) >> key % 4 & 1) << bit;
  }
  return kept;
}

/// The score in base 2 of q . k, and what its derivative is multiplied with.
struct Score {
  float value, slope;
};
template <bool kCap, class T>
TRIREME_DEVICE Score score_of(const AttentionArguments<T>& a, float product) {
  if constexpr (!kCap) return {product * (a.scale * kLog2E), 1};
  const float t = tanh_of(product * (a.scale / a.cap));
  return {a.cap * kLog2E * t, 1 - t * t};
}

// ---- forward

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

// ---- backward

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

// ---- launches

/// f(integral constant): the smallest compiled head size that holds this one.
template <class F>
void with_head_dim(int head_dim, F f) {
  if (head_dim <= 32) return f(std::integral_constant<int, 32>());
  if (head_dim <= 64) return f(std::integral_constant<int, 64>());
  if (head_dim <= 80) return f(std::integral_constant<int, 80>());
  if (head_dim <= 96) return f(std::integral_constant<int, 96>());
  if (head_dim <= 128) return f(std::integral_constant<int, 128>());
  f(std::integral_constant<int, 256>());
}

template <class T>
Grid tile_grid(const AttentionArguments<T>& a, int rows, int heads) {
  return {ceil_divide(a.rows, rows) + a.sequences, heads, 1};
}

template <class T, int D, bool kDropout, bool kCap>
void run_forward(Stream stream, const AttentionArguments<T>& a) {
  launch("attention", stream, tile_grid(a, kWarps * 16 * kForwardGroups<D>, a.heads), kThreads, kForwardBytes<T, D>,
         forward_tiles<T, D, kDropout, kCap>, a);
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

/// f(dropout, cap, head size), each an integral constant. No model has dropout and a cap: takes_tiles().
template <class T, class F>
void with_variant(const AttentionArguments<T>& a, F f) {
  with_head_dim(a.head_dim, [&](auto d) {
    if (a.cap > 0) return f(std::false_type(), std::true_type(), d);
    if (a.dropout.threshold > 0) return f(std::true_type(), std::false_type(), d);
    f(std::false_type(), std::false_type(), d);
  });
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

template <class T>
void run_attention_backward_tiles(gpu::Stream stream, const AttentionArguments<T>& a) {
  with_variant(a, [&](auto dropout, auto cap, auto d) { run_backward<T, d(), dropout(), cap()>(stream, a); });
}

template bool takes_tiles(const AttentionArguments<bf16_t>&);
template void run_attention_tiles(gpu::Stream, const AttentionArguments<bf16_t>&);
template void run_attention_backward_tiles(gpu::Stream, const AttentionArguments<bf16_t>&);

}  // namespace trireme
