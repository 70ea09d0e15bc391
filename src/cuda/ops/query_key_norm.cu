// Normalisation of queries and keys by the root of their mean square: a warp per query or key, or per row's queries or
// keys where the whole projection is normalised.

#include "cuda/column_sums.h"
#include "cuda/cuda_ops.h"
#include "cuda/launch.h"

namespace trireme {
namespace {

using namespace gpu;

template <class T>
struct QueryKeyArguments {
  Global<const T> qkv, other, q, k;  ///< other: dqkv of the products
  Global<T> to;                      ///< y, or dqkv in place
  Global<const float> squares, products;
  Global<float> sums;      ///< squares or products
  Global<float> partials;  ///< [chunks, q gains + k gains]
  int64_t rows, kv_heads, group, head_dim, chunk_rows;
  int64_t q_gains, k_gains;
  float q_inverse, k_inverse;  ///< 1 / values of a mean
  float offset, epsilon;
  bool whole;

  TRIREME_DEVICE int64_t heads() const { return kv_heads * (group + 1); }  ///< queries and keys of a row
  TRIREME_DEVICE int64_t statistics() const { return whole ? 2 : heads(); }

  /// Head n of a row's queries and keys, in their order in qkv.
  struct Head {
    int64_t at;  ///< its first value
    bool key;
    int64_t statistic, gain;  ///< gain: of its first value
  };
  TRIREME_DEVICE Head head(int64_t row, int64_t n) const {
    const int64_t kv_head = n / (group + 1), part = n % (group + 1);
    const bool is_key = part == group;
    return {((row * kv_heads + kv_head) * (group + 2) + part) * head_dim, is_key,
            whole ? 2 * row + (is_key ? 1 : 0) : row * heads() + n,
            whole ? (is_key ? kv_head : kv_head * group + part) * head_dim : 0};
  }
  TRIREME_DEVICE float gain(const Head& h, int64_t i) const {
    return offset + widen(h.key ? k[h.gain + i] : q[h.gain + i]);
  }
  TRIREME_DEVICE float rstd(const Head& h) const {
    return div_rn(1.0f, sqrt_rn(squares[h.statistic] * (h.key ? k_inverse : q_inverse) + epsilon));
  }
};

constexpr int kBlockWarps = 4;

/// A warp per statistic: squares, or products where `other` is given.
template <class T>
TRIREME_KERNEL query_key_sums(QueryKeyArguments<T> a) {
  const int64_t n = static_cast<int64_t>(block_x()) * kBlockWarps + thread() / kWarp;
  if (n >= a.rows * a.statistics()) return;
  const int64_t row = n / a.statistics(), which = n % a.statistics();
  float sum = 0;
  for (int64_t head = a.whole ? 0 : which; head < (a.whole ? a.heads() : which + 1); ++head) {
    const auto h = a.head(row, head);
    if (a.whole && h.key != (which == 1)) continue;
    for (int64_t i = thread() % kWarp; i < a.head_dim; i += kWarp) {
      const float x = widen(a.qkv[h.at + i]);
      sum += a.other.empty() ? x * x : widen(a.other[h.at + i]) * a.gain(h, i) * x;
    }
  }
  sum = warp_sum(sum);
  if (thread() % kWarp == 0) a.sums[n] = sum;
}

/// A warp per query, key and value.
template <class T>
TRIREME_KERNEL query_key_scale(QueryKeyArguments<T> a) {
  const int64_t n = static_cast<int64_t>(block_x()) * kBlockWarps + thread() / kWarp, parts = a.group + 2;
  if (n >= a.rows * a.kv_heads * parts) return;
  const int64_t row = n / (a.kv_heads * parts), kv_head = n / parts % a.kv_heads, part = n % parts;
  const bool value = part > a.group;
  const auto h = a.head(row, kv_head * (a.group + 1) + (value ? 0 : part));
  const float rstd = value ? 1 : a.rstd(h);
  for (int64_t i = thread() % kWarp; i < a.head_dim; i += kWarp) {
    const T x = a.qkv[n * a.head_dim + i];
    a.to[n * a.head_dim + i] = value ? x : narrow<T>(widen(x) * rstd * a.gain(h, i));
  }
}

/// A thread per gain and chunk of rows: sums of dqkv xhat.
template <class T>
TRIREME_KERNEL query_key_gains(QueryKeyArguments<T> a) {
  const int64_t gains = a.q_gains + a.k_gains, n = static_cast<int64_t>(block_x()) * threads() + thread();
  if (n >= gains) return;
  const bool key = n >= a.q_gains;
  const int64_t of = key ? n - a.q_gains : n, i = of % a.head_dim;
  float sum = 0;
  for (int64_t row = block_y() * a.chunk_rows; row < (block_y() + 1) * a.chunk_rows && row < a.rows; ++row)
    for (int64_t head = 0; head < a.heads(); ++head) {
      const auto h = a.head(row, head);
      if (h.key == key && h.gain + i == of) sum += widen(a.to[h.at + i]) * (widen(a.qkv[h.at + i]) * a.rstd(h));
    }
  a.partials[block_y() * gains + n] = sum;
}

/// A warp per query and key.
template <class T>
TRIREME_KERNEL query_key_gradient(QueryKeyArguments<T> a) {
  const int64_t n = static_cast<int64_t>(block_x()) * kBlockWarps + thread() / kWarp;
  if (n >= a.rows * a.heads()) return;
  const auto h = a.head(n / a.heads(), n % a.heads());
  const float rstd = a.rstd(h), mean = a.products[h.statistic] * rstd * (h.key ? a.k_inverse : a.q_inverse);
  for (int64_t i = thread() % kWarp; i < a.head_dim; i += kWarp) {
    const float xhat = widen(a.qkv[h.at + i]) * rstd, d = widen(a.to[h.at + i]);
    a.to[h.at + i] = narrow<T>(rstd * (d * a.gain(h, i) - xhat * mean));
  }
}

struct GainPartialsArguments {
  Global<const float> partials;  ///< [count, q gains + k gains]
  Global<float> dq, dk;
  int64_t count, q_gains, gains;
  bool adds;
};

TRIREME_KERNEL sum_gain_partials(GainPartialsArguments a) {
  const int64_t n = static_cast<int64_t>(block_x()) * threads() + thread();
  if (n >= a.gains) return;
  float sum = 0;
  for (int64_t p = 0; p < a.count; ++p) sum += a.partials[p * a.gains + n];
  const bool key = n >= a.q_gains;
  const Global<float> to = key ? a.dk : a.dq;
  const int64_t at = key ? n - a.q_gains : n;
  to[at] = a.adds ? to[at] + sum : sum;
}

template <class T>
QueryKeyArguments<T> arguments_of(ConstView qkv, const QueryKeyNorm& norm) {
  QueryKeyArguments<T> a{};
  a.qkv = global<T>(qkv);
  a.q = global<T>(norm.q);
  a.k = global<T>(norm.k);
  a.rows = qkv.rows();
  a.kv_heads = qkv.shape()[1];
  a.group = qkv.shape()[2] - 2;
  a.head_dim = qkv.shape()[3];
  a.q_gains = norm.q.count();
  a.k_gains = norm.k.count();
  a.q_inverse = 1 / static_cast<float>(norm.q_count);
  a.k_inverse = 1 / static_cast<float>(norm.k_count);
  a.offset = norm.offset;
  a.epsilon = norm.epsilon;
  a.whole = norm.whole;
  return a;
}

template <class T>
void run_warps(const char* name, Context& context, int64_t warps, void (*kernel)(QueryKeyArguments<T>),
               const QueryKeyArguments<T>& a) {
  launch(name, gpu_stream(*context.stream), {ceil_divide(warps, kBlockWarps), 1, 1}, kBlockWarps * kWarp, 0, kernel, a);
}

/// squares, or products where dqkv is given.
void run_sums(const char* name, Context& context, ConstView qkv, ConstView dqkv, const QueryKeyNorm& norm, View sums) {
  with_element(qkv.dtype(), [&](auto element) {
    using T = decltype(element);
    QueryKeyArguments<T> a = arguments_of<T>(qkv, norm);
    a.other = global<T>(dqkv);
    a.sums = global<float>(sums);
    run_warps(name, context, sums.count(), query_key_sums<T>, a);
  });
}

}  // namespace

void CudaOps::do_query_key_squares(Context& context, ConstView qkv, const QueryKeyNorm& norm, View squares) {
  run_sums("query_key_squares", context, qkv, {}, norm, squares);
}

void CudaOps::do_query_key_norm(Context& context, ConstView qkv, const QueryKeyNorm& norm, ConstView squares, View y) {
  with_element(qkv.dtype(), [&](auto element) {
    using T = decltype(element);
    QueryKeyArguments<T> a = arguments_of<T>(qkv, norm);
    a.squares = global<float>(squares);
    a.to = global<T>(y);
    run_warps("query_key_norm", context, qkv.rows() * qkv.shape()[1] * qkv.shape()[2], query_key_scale<T>, a);
  });
}

void CudaOps::do_query_key_products(Context& context, ConstView dqkv, ConstView qkv, const QueryKeyNorm& norm,
                                    View products) {
  if (qkv.count() > 0) run_sums("query_key_products", context, qkv, dqkv, norm, products);
}

void CudaOps::do_query_key_norm_backward(Context& context, View dqkv, ConstView qkv, const QueryKeyNorm& norm,
                                         ConstView squares, ConstView products, View dq, View dk, Write write) {
  const ArenaScope scope(*context.scratch);
  const int64_t gains = norm.q.count() + norm.k.count();
  const ColumnChunks chunks(qkv.rows(), gains);
  const View partials = context.scratch->take(DType::f32, {chunks.count, gains});
  with_element(qkv.dtype(), [&](auto element) {
    using T = decltype(element);
    QueryKeyArguments<T> a = arguments_of<T>(qkv, norm);
    a.squares = global<float>(squares);
    a.products = global<float>(products);
    a.to = global<T>(dqkv);
    a.partials = global<float>(partials);
    a.chunk_rows = chunks.rows;
    launch("query_key_gains", gpu_stream(*context.stream), {ceil_divide(gains, 64), chunks.count, 1}, 64, 0,
           query_key_gains<T>, a);
    run_warps("query_key_gradient", context, a.rows * a.kv_heads * (a.group + 1), query_key_gradient<T>, a);
  });
  const GainPartialsArguments arguments{
      global<float>(ConstView(partials)), global<float>(dq), global<float>(dk), chunks.count, norm.q.count(), gains,
      write != Write::overwrite};
  launch("sum_gain_partials", gpu_stream(*context.stream), {ceil_divide(gains, 64), 1, 1}, 64, 0, sum_gain_partials,
         arguments);
}

}  // namespace trireme
