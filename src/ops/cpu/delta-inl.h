// Shared by the forward and backward kernels of the gated delta rule; compiled once per instruction set.
//
// Of a chunk of n rows, of one value head: q, k normalised queries and keys, v values, S the state before it; g the
// logs of decays, G their sums up to a row, its own included, e = e^G, D_ij = e^(G_i - G_j) for i >= j, t = e^(G_last -
// G); b the betas. All products have f32 operands and f32 sums.
//   A_ij = b_i (k k^T)_ij D_ij, i > j;  (1 + A) x = b (v - e k S);  P_ij = (q k^T)_ij D_ij, i >= j
//   out = e q S + P x;  S = e_last S + k^T (t x)
// Source: Yang, Kautz and Hatamizadeh 2025, section 3.3.

#if defined(TRIREME_DELTA_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_DELTA_INL_H
#undef TRIREME_DELTA_INL_H
#else
#define TRIREME_DELTA_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ops/cpu/attention-inl.h"
#include "ops/cpu/delta.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

constexpr int64_t kChunk = kDeltaChunk;
static_assert(kChunk == kPanel);

/// c [m x n] = a b, or += a b, a panel of columns at a time.
template <Side kSide>
HWY_INLINE void product(int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb,
                        float* c, int64_t ldc, bool accumulate) {
  constexpr int64_t kColumns = kTileVectors * kLanes;
  for (int64_t column = 0; column < n; column += kColumns)
    for (int64_t row = 0; row < m; row += kTileRows)
      multiply<kSide>(std::min<int64_t>(kTileRows, m - row), std::min(kColumns, n - column), k,
                      kSide == Side::rows ? a + row * lda : a + row, lda, b + column, ldb, c + row * ldc + column, ldc,
                      accumulate);
}

/// c [m x n] += a b of a lower triangle a [m x m].
HWY_INLINE void add_lower(int64_t m, int64_t n, const float* a, int64_t lda, const float* b, int64_t ldb, float* c,
                          int64_t ldc) {
  for (int64_t row = 0; row < m; row += kTileRows) {
    const int64_t rows = std::min<int64_t>(kTileRows, m - row);
    multiply<Side::rows>(rows, n, row + rows, a + row * lda, lda, b, ldb, c + row * ldc, ldc, true);
  }
}

/// c [m x n] += a^T b of a lower triangle a.
HWY_INLINE void add_lower_transposed(int64_t m, int64_t n, const float* a, int64_t lda, const float* b, int64_t ldb,
                                     float* c, int64_t ldc) {
  for (int64_t row = 0; row < m; row += kTileRows)
    multiply<Side::transposed>(std::min<int64_t>(kTileRows, m - row), n, m - row, a + row * lda + row, lda,
                               b + row * ldb, ldb, c + row * ldc, ldc, true);
}

/// y [n] += factor x.
HWY_INLINE void add_scaled(float factor, const float* x, int64_t n, float* y) {
  const TagF32 d;
  const VecF32 f = hn::Set(d, factor);
  for (int64_t i = 0; i < n; i += kLanes) hn::StoreU(hn::MulAdd(f, hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, y + i);
}
/// y [n] = factor x; y may be x.
HWY_INLINE void scale_to(float factor, const float* x, int64_t n, float* y) {
  const TagF32 d;
  const VecF32 f = hn::Set(d, factor);
  for (int64_t i = 0; i < n; i += kLanes) hn::StoreU(hn::Mul(f, hn::LoadU(d, x + i)), d, y + i);
}
HWY_INLINE float dot_of(const float* x, const float* y, int64_t n) {
  return sum_over(n, [&](int64_t i, auto lanes) HWY_ATTR { return hn::Mul(load(x + i, lanes), load(y + i, lanes)); });
}

/// x [m x n] becomes the solution of (1 - lower) y = x; of a strictly lower triangle.
HWY_INLINE void solve(int64_t m, int64_t n, const float* lower, int64_t ld, float* x) {
  for (int64_t row = 0; row < m; row += kTileRows) {
    const int64_t rows = std::min<int64_t>(kTileRows, m - row);
    if (row > 0) multiply<Side::rows>(rows, n, row, lower + row * ld, ld, x, n, x + row * n, n, true);
    for (int64_t i = row; i < row + rows; ++i)
      for (int64_t j = row; j < i; ++j) add_scaled(lower[i * ld + j], x + j * n, n, x + i * n);
  }
}

/// The same with the transposed triangle.
HWY_INLINE void solve_transposed(int64_t m, int64_t n, const float* lower, int64_t ld, float* x) {
  for (int64_t row = (m - 1) / kTileRows * kTileRows; row >= 0; row -= kTileRows) {
    const int64_t end = std::min<int64_t>(row + kTileRows, m);
    if (end < m)
      multiply<Side::transposed>(end - row, n, m - end, lower + end * ld + row, ld, x + end * n, n, x + row * n, n,
                                 true);
    for (int64_t i = end - 1; i >= row; --i)
      for (int64_t j = i + 1; j < end; ++j) add_scaled(lower[j * ld + i], x + j * n, n, x + i * n);
  }
}

/// Sizes of a call with those of rows of f32, whole vectors.
struct DeltaSizes {
  int64_t key, value, keys, values;  ///< keys, values: padded
  explicit DeltaSizes(const DeltaShape& s)
      : key(s.key_size),
        value(s.value_size),
        keys(padded_head_dim(s.key_size)),
        values(padded_head_dim(s.value_size)) {}
};

/// What the value heads of a group share in a chunk.
struct DeltaKeys {
  float *q, *k;              ///< [kChunk, keys] normalised
  float *q_scale, *k_scale;  ///< [kChunk] their factors
  float* keys_t;             ///< [keys, kChunk]
  float *kk, *qk;            ///< [kChunk, kChunk] k k^T, q k^T

  DeltaKeys(Cutter& cut, const DeltaSizes& sizes) {
    for (float** rows : {&q, &k, &keys_t}) *rows = cut.take<float>(kChunk * sizes.keys);
    for (float** scale : {&q_scale, &k_scale}) *scale = cut.take<float>(kChunk);
    for (float** square : {&kk, &qk}) *square = cut.take<float>(kChunk * kChunk);
  }

  /// Of the rows from `row` on.
  template <class T>
  HWY_INLINE void load_chunk(ConstView mixed, const DeltaShape& shape, const DeltaSizes& sizes, int64_t key_head,
                             int64_t row, int64_t count) const {
    const int64_t stride = shape.key_heads * shape.mixed_width();
    const T* at = mixed.as<T>() + row * stride + key_head * shape.mixed_width();
    copy_rows(Rows<const T>{at, stride}, count, sizes.key, q, sizes.keys);
    copy_rows(Rows<const T>{at + sizes.key, stride}, count, sizes.key, k, sizes.keys);
    const float root = 1.0f / std::sqrt(static_cast<float>(sizes.key));
    for (int64_t i = 0; i < count; ++i) {
      float *const query = q + i * sizes.keys, *const key = k + i * sizes.keys;
      q_scale[i] = 1.0f / std::sqrt(dot_of(query, query, sizes.keys) + 1e-6f);
      k_scale[i] = 1.0f / std::sqrt(dot_of(key, key, sizes.keys) + 1e-6f);
      scale_to(q_scale[i] * root, query, sizes.keys, query);
      scale_to(k_scale[i], key, sizes.keys, key);
    }
    transpose_rows(Rows<const float>{k, sizes.keys}, count, sizes.keys, keys_t);
    product<Side::rows>(count, kChunk, sizes.key, k, sizes.keys, keys_t, kChunk, kk, kChunk, false);
    product<Side::rows>(count, kChunk, sizes.key, q, sizes.keys, keys_t, kChunk, qk, kChunk, false);
  }
};

/// Betas and decays of a value head in a chunk.
struct DeltaDecays {
  float *beta, *e, *t;   ///< [kChunk]
  float *g, *slope;      ///< [kChunk] and the derivative of g by the decay's logit
  float last;            ///< e of the chunk's last row
  float *d, *p, *lower;  ///< [kChunk, kChunk] D, P and -A, zeros above the diagonal

  explicit DeltaDecays(Cutter& cut) : last(0) {
    for (float** each : {&beta, &e, &t, &g, &slope}) *each = cut.take<float>(kChunk);
    for (float** square : {&d, &p, &lower}) *square = cut.take<float>(kChunk * kChunk);
  }

  template <class T>
  HWY_INLINE void load_chunk(ConstView projected, ConstView decay_log, ConstView decay_bias, const DeltaShape& shape,
                             const DeltaKeys& keys, int64_t key_head, int64_t member, int64_t row, int64_t count) {
    const int64_t head = key_head * shape.group + member;
    const float a = -std::exp(as_float(decay_log.as<T>()[head])), bias = as_float(decay_bias.as<T>()[head]);
    double sums[kChunk], sum = 0;
    for (int64_t i = 0; i < count; ++i) {
      const T* logits =
          projected.as<T>() + ((row + i) * shape.key_heads + key_head + 1) * shape.width() - 2 * shape.group + member;
      const float x = as_float(logits[shape.group]) + bias, small = std::exp(-std::abs(x));
      beta[i] = 1.0f / (1.0f + std::exp(-as_float(logits[0])));
      g[i] = a * (std::max(x, 0.0f) + std::log1p(small));
      slope[i] = a * (x >= 0 ? 1.0f : small) / (1.0f + small);
      sums[i] = sum += static_cast<double>(g[i]);
      e[i] = static_cast<float>(std::exp(sum));
    }
    last = e[count - 1];
    const TagF32 tag;
    for (int64_t i = 0; i < count; ++i) {
      t[i] = static_cast<float>(std::exp(sum - sums[i]));
      float* const row_d = d + i * kChunk;
      // Differences in f64: a sum of large decays has no digits left for a small one after it.
      for (int64_t j = 0; j <= i; ++j) row_d[j] = static_cast<float>(sums[i] - sums[j]);
      std::fill(row_d + i + 1, row_d + kChunk, -1000.0f);
      for (int64_t j = 0; j < kChunk; j += kLanes) {
        const VecF32 decay = exp_to_88(hn::LoadU(tag, row_d + j)),
                     below = hn::IfThenElseZero(first_lanes(i - j), decay);
        hn::StoreU(decay, tag, row_d + j);
        hn::StoreU(hn::Mul(decay, hn::LoadU(tag, keys.qk + i * kChunk + j)), tag, p + i * kChunk + j);
        const VecF32 product = hn::Mul(below, hn::LoadU(tag, keys.kk + i * kChunk + j));
        hn::StoreU(hn::Mul(hn::Set(tag, -beta[i]), product), tag, lower + i * kChunk + j);
      }
    }
  }
};

/// Rows of a value head in `mixed` (or in its gradient).
template <class T>
HWY_INLINE Rows<T> value_rows_of(T* mixed, const DeltaShape& shape, int64_t key_head, int64_t member, int64_t row) {
  const int64_t stride = shape.key_heads * shape.mixed_width();
  return {mixed + row * stride + key_head * shape.mixed_width() + 2 * shape.key_size + member * shape.value_size,
          stride};
}

/// ks = k S; error = v - e ks, x = the solution of (1 + A) x = b error. ks, error, x: [kChunk, values]; error may be x.
template <class T>
HWY_INLINE void solve_chunk(const DeltaSizes& sizes, const DeltaKeys& keys, const DeltaDecays& decays,
                            Rows<const T> values, const float* state, int64_t count, float* ks, float* error,
                            float* x) {
  product<Side::rows>(count, sizes.values, sizes.key, keys.k, sizes.keys, state, sizes.values, ks, sizes.values, false);
  copy_rows(values, count, sizes.value, error, sizes.values);
  for (int64_t i = 0; i < count; ++i) {
    add_scaled(-decays.e[i], ks + i * sizes.values, sizes.values, error + i * sizes.values);
    scale_to(decays.beta[i], error + i * sizes.values, sizes.values, x + i * sizes.values);
  }
  solve(count, sizes.values, decays.lower, kChunk, x);
}

/// A state in memory and in rows of whole vectors.
HWY_INLINE void load_state(const float* from, const DeltaSizes& sizes, float* to) {
  copy_rows(Rows<const float>{from, sizes.value}, sizes.key, sizes.value, to, sizes.values);
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
