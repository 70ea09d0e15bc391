#pragma once
// What attention's kernels on tensor cores share (ops/attention_forward.cu, ops/attention_backward.cu): mma m16n8k16,
// tiles of keys (or queries) in shared memory, copied while the tile before is multiplied. Source: Dao 2023,
// FlashAttention-2.
//
// Legend, fragments of a warp: lane = 4 g + t / 2 holds of a 16 x 8 result rows g and g + 8, columns t and t + 1.

#include "cuda/attention.h"

namespace trireme::gpu {

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
  for (int k = 0; k < 4; ++k) kept |= static_cast<uint32_t>(words.w[k] >= a.dropout.threshold) << k;
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

/// f(dropout, cap, head size), each an integral constant. No model has dropout and a cap: takes_tiles().
template <class T, class F>
void with_variant(const AttentionArguments<T>& a, F f) {
  with_head_dim(a.head_dim, [&](auto d) {
    if (a.cap > 0) return f(std::false_type(), std::true_type(), d);
    if (a.dropout.threshold > 0) return f(std::true_type(), std::false_type(), d);
    f(std::false_type(), std::false_type(), d);
  });
}

}  // namespace trireme::gpu
