// Normalisation of queries and keys by the root of their mean square. A thread has packs of eight values; the lanes of
// a statistic are neighbours. Bytes per element: squares read 1, products 2; the norm reads 1, writes 1; backward reads
// 2, writes 1.

#include <algorithm>
#include <bit>

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
  Global<float> partials;  ///< [chunks, packs of a row's queries and keys x 8]
  int64_t rows, kv_heads, group, head_dim, chunk_rows;
  Divider packs;               ///< of a head
  Divider parts;               ///< of a group: its queries, key and value
  Divider turned;              ///< of a group: its queries and key
  Divider grouped;             ///< query heads of a group
  Divider of_row;              ///< groups of a row
  uint32_t lane_bits;          ///< 2^lane_bits lanes per statistic
  float q_inverse, k_inverse;  ///< 1 / values of a mean
  float offset, epsilon;
  bool whole, fast;

  TRIREME_DEVICE uint32_t heads() const { return of_row.divisor * turned.divisor; }  ///< queries and keys of a row
  TRIREME_DEVICE int64_t row_width() const { return kv_heads * (group + 2) * head_dim; }
  TRIREME_DEVICE float rstd(float square, bool key) const {
    return div_rn(1.0f, sqrt_rn(square * (key ? k_inverse : q_inverse) + epsilon));
  }
  /// offset + the gains of a pack that begins at `gain`.
  TRIREME_DEVICE Pack gains(bool key, int64_t gain, int64_t end) const {
    Pack g = load_pack(key ? k : q, gain, end, fast);
    TRIREME_UNROLL
    for (int i = 0; i < kPack; ++i) g.v[i] += offset;
    return g;
  }
  /// A query or key: query head or key head `head` of its kind.
  struct Head {
    int64_t at;      ///< its first value in a row
    int64_t gain;    ///< of its first value
    uint32_t order;  ///< among a row's queries and keys in their order in qkv
  };
  TRIREME_DEVICE Head head(bool key, uint32_t head) const {
    const uint32_t of = key ? head : grouped.divide(head), part = key ? grouped.divisor : head - of * grouped.divisor;
    return {static_cast<int64_t>(of * parts.divisor + part) * head_dim, whole ? head * head_dim : 0,
            of * turned.divisor + part};
  }
  /// The n-th of a row's queries and keys.
  struct Numbered {
    bool key;
    uint32_t head;
  };
  TRIREME_DEVICE Numbered numbered(uint32_t n) const {
    const uint32_t of = turned.divide(n), part = n - of * turned.divisor;
    const bool key = part == grouped.divisor;
    return {key, key ? of : of * grouped.divisor + part};
  }
};

constexpr int kSumThreads = 128;

/// Neighbouring lanes per statistic: squares, or products where `other` is given.
template <class T>
TRIREME_KERNEL query_key_sums(QueryKeyArguments<T> a) {
  const auto i = static_cast<uint32_t>(block_x()) * kSumThreads + static_cast<uint32_t>(thread());
  const uint32_t n = i >> a.lane_bits, lanes = 1u << a.lane_bits, lane = i & (lanes - 1);
  float sum = 0;
  if (n < a.rows * (a.whole ? 2 : a.heads())) {
    const uint32_t row = a.whole ? n / 2 : a.of_row.divide(a.turned.divide(n));
    const auto [key, head] =
        a.whole ? typename QueryKeyArguments<T>::Numbered{n % 2 == 1, 0} : a.numbered(n - row * a.heads());
    const uint32_t count = a.packs.divisor * (a.whole ? a.of_row.divisor * (key ? 1 : a.grouped.divisor) : 1);
    for (uint32_t p = lane; p < count; p += lanes) {
      const uint32_t of = a.packs.divide(p), in_head = (p - of * a.packs.divisor) * kPack;
      const auto h = a.head(key, a.whole ? of : head);
      const int64_t begin = row * a.row_width() + h.at, at = begin + in_head, end = begin + a.head_dim;
      const Pack x = load_pack(a.qkv, at, end, a.fast);
      if (a.other.empty()) {
        TRIREME_UNROLL
        for (int e = 0; e < kPack; ++e) sum += x.v[e] * x.v[e];
      } else {
        const Pack d = load_pack(a.other, at, end, a.fast);
        const Pack gain = a.gains(key, h.gain + in_head, h.gain + a.head_dim);
        TRIREME_UNROLL
        for (int e = 0; e < kPack; ++e) sum += d.v[e] * gain.v[e] * x.v[e];
      }
    }
  }
  for (int mask = static_cast<int>(lanes) / 2; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
  if (lane == 0 && n < a.rows * (a.whole ? 2 : a.heads())) a.sums[n] = sum;
}

/// A thread per pack of a query, key or value.
template <class T>
TRIREME_KERNEL query_key_scale(QueryKeyArguments<T> a) {
  const auto i = static_cast<uint32_t>(block_x()) * 256 + static_cast<uint32_t>(thread());
  const uint32_t n = a.packs.divide(i), in_head = (i - n * a.packs.divisor) * kPack;
  const uint32_t in_rows = a.parts.divide(n), part = n - in_rows * a.parts.divisor;  // in_rows: group of all rows
  const uint32_t row = a.of_row.divide(in_rows), of = in_rows - row * a.of_row.divisor;
  if (row >= a.rows) return;
  const int64_t begin = n * a.head_dim, at = begin + in_head, end = begin + a.head_dim;
  const Raw<T> raw = load_raw(a.qkv, at, end, a.fast);
  if (part > a.grouped.divisor) return store_raw(raw, a.to, at, end, a.fast);
  const bool key = part == a.grouped.divisor;
  const uint32_t head = key ? of : of * a.grouped.divisor + part;
  const int64_t first = a.whole ? head * a.head_dim : 0;
  const float rstd = a.rstd(a.squares[a.whole ? 2 * row + (key ? 1 : 0) : in_rows * a.turned.divisor + part], key);
  const Pack gain = a.gains(key, first + in_head, first + a.head_dim);
  Pack x = unpack(raw);
  TRIREME_UNROLL
  for (int e = 0; e < kPack; ++e) x.v[e] = x.v[e] * rstd * gain.v[e];
  store_pack(x, a.to, at, end, a.fast);
}

/// The gradient of queries and keys in place, and a chunk's sums of dqkv xhat: a thread has one pack of a row in each
/// of a chunk's rows.
template <class T>
TRIREME_KERNEL query_key_gradient(QueryKeyArguments<T> a) {
  struct Loaded {
    Raw<T> x, d;
    float square, product;
  };
  const auto pack = static_cast<uint32_t>(block_x() * kWarp + thread() % kWarp);
  const uint32_t n = a.packs.divide(pack), in_head = (pack - n * a.packs.divisor) * kPack;
  const auto which = a.numbered(n);
  const bool key = which.key, valid = n < a.heads();
  const auto h = a.head(key, which.head);
  const Pack gain = valid ? a.gains(key, h.gain + in_head, h.gain + a.head_dim) : Pack{};
  const int64_t width = int64_t{a.heads()} * a.packs.divisor * kPack;
  sum_chunk<1, 2>(
      a.rows, width, a.chunk_rows,
      [&](int64_t row, int64_t) {
        const int64_t begin = row * a.row_width() + h.at, at = begin + in_head, end = begin + a.head_dim;
        const int64_t statistic = a.whole ? 2 * row + (key ? 1 : 0) : row * a.heads() + n;
        return Loaded{load_raw(a.qkv, at, end, a.fast), load_raw(a.to, at, end, a.fast), a.squares[statistic],
                      a.products[statistic]};
      },
      [&](int64_t row, int64_t, const Loaded& loaded, Pack(&sums)[1]) {
        const int64_t begin = row * a.row_width() + h.at;
        const float rstd = a.rstd(loaded.square, key);
        const float mean = loaded.product * rstd * (key ? a.k_inverse : a.q_inverse);
        const Pack x = unpack(loaded.x);
        Pack d = unpack(loaded.d);
        TRIREME_UNROLL
        for (int i = 0; i < kPack; ++i) {
          const float xhat = x.v[i] * rstd;
          sums[0].v[i] += d.v[i] * xhat;
          d.v[i] = rstd * (d.v[i] * gain.v[i] - xhat * mean);
        }
        store_pack(d, a.to, begin + in_head, begin + a.head_dim, a.fast);
      },
      [&](int, int64_t chunk, int64_t channel, float sum) { a.partials[chunk * width + channel] = sum; });
}

template <class T>
struct GainPartialsArguments {
  QueryKeyArguments<T> of;
  Global<const float> partials;
  Global<float> dq, dk;  ///< empty: not wanted
  int64_t chunks, q_gains, gains, width;
  bool adds;
};

/// A column per gain: over the chunks and, where heads share the gain, over them.
template <class T>
TRIREME_KERNEL sum_gain_partials(GainPartialsArguments<T> a) {
  const QueryKeyArguments<T>& of = a.of;
  const int64_t n = lane_column();
  const bool key = n >= a.q_gains;
  const auto gain = static_cast<uint32_t>(key ? n - a.q_gains : n), head_dim = static_cast<uint32_t>(of.head_dim);
  const uint32_t own = gain / head_dim, in_head = gain % head_dim;
  const uint32_t heads = of.whole ? 1 : of.of_row.divisor * (key ? 1 : of.grouped.divisor);
  const Global<float> to = key ? a.dk : a.dq;
  const bool wanted = n < a.gains && !to.empty();
  const float sum = sum_in_lanes(wanted ? a.chunks * heads : 0, [&](int64_t i) {
    const uint32_t chunk = static_cast<uint32_t>(i) / heads, head = of.whole ? own : static_cast<uint32_t>(i) % heads;
    return a.partials[chunk * a.width + int64_t{of.head(key, head).order * of.packs.divisor} * kPack + in_head];
  });
  if (!wanted || thread() >= kWarp) return;
  to[gain] = a.adds ? to[gain] + sum : sum;
}

template <class T>
QueryKeyArguments<T> arguments_of(ConstView qkv, ConstView other, const QueryKeyNorm& norm) {
  QueryKeyArguments<T> a{};
  a.qkv = global<T>(qkv);
  a.q = global<T>(norm.q);
  a.k = global<T>(norm.k);
  a.rows = qkv.rows();
  a.kv_heads = qkv.shape()[1];
  a.group = qkv.shape()[2] - 2;
  a.head_dim = qkv.shape()[3];
  a.packs = Divider(ceil_divide(a.head_dim, kPack));
  a.parts = Divider(a.group + 2);
  a.turned = Divider(a.group + 1);
  a.grouped = Divider(a.group);
  a.of_row = Divider(a.kv_heads);
  const auto most = static_cast<uint32_t>(norm.whole ? kWarp : std::min<int64_t>(a.packs.divisor, kWarp));
  a.lane_bits = static_cast<uint32_t>(std::bit_width(most - 1));
  a.q_inverse = 1 / static_cast<float>(norm.q_count);
  a.k_inverse = 1 / static_cast<float>(norm.k_count);
  a.offset = norm.offset;
  a.epsilon = norm.epsilon;
  a.whole = norm.whole;
  a.fast = packs(a.head_dim, {qkv, other, norm.q, norm.k});
  return a;
}

/// squares, or products where dqkv is given.
void run_sums(const char* name, Context& context, ConstView qkv, ConstView dqkv, const QueryKeyNorm& norm, View sums) {
  with_element(qkv.dtype(), [&](auto element) {
    using T = decltype(element);
    QueryKeyArguments<T> a = arguments_of<T>(qkv, dqkv, norm);
    a.other = global<T>(dqkv);
    a.sums = global<float>(sums);
    launch(name, gpu_stream(*context.stream), {ceil_divide(sums.count() << a.lane_bits, kSumThreads), 1, 1},
           kSumThreads, 0, query_key_sums<T>, a);
  });
}

}  // namespace

void CudaOps::do_query_key_squares(Context& context, ConstView qkv, const QueryKeyNorm& norm, View squares) {
  run_sums("query_key_squares", context, qkv, {}, norm, squares);
}

void CudaOps::do_query_key_norm(Context& context, ConstView qkv, const QueryKeyNorm& norm, ConstView squares, View y) {
  with_element(qkv.dtype(), [&](auto element) {
    using T = decltype(element);
    QueryKeyArguments<T> a = arguments_of<T>(qkv, y, norm);
    a.squares = global<float>(squares);
    a.to = global<T>(y);
    const int64_t all = a.rows * a.kv_heads * (a.group + 2) * a.packs.divisor;
    launch("query_key_norm", gpu_stream(*context.stream), {ceil_divide(all, 256), 1, 1}, 256, 0, query_key_scale<T>, a);
  });
}

void CudaOps::do_query_key_products(Context& context, ConstView dqkv, ConstView qkv, const QueryKeyNorm& norm,
                                    View products) {
  if (qkv.count() > 0) run_sums("query_key_products", context, qkv, dqkv, norm, products);
}

void CudaOps::do_query_key_norm_backward(Context& context, View dqkv, ConstView qkv, const QueryKeyNorm& norm,
                                         ConstView squares, ConstView products, View dq, View dk, Write write) {
  const ArenaScope scope(*context.scratch);
  const int64_t heads = qkv.shape()[1] * (qkv.shape()[2] - 1);
  const int64_t width = heads * ceil_divide(qkv.shape()[3], kPack) * kPack;  // of queries and keys in packs
  const ColumnChunks chunks(qkv.rows(), width);
  const View partials = context.scratch->take(DType::f32, {chunks.count, width});
  with_element(qkv.dtype(), [&](auto element) {
    using T = decltype(element);
    QueryKeyArguments<T> a = arguments_of<T>(qkv, dqkv, norm);
    a.squares = global<float>(squares);
    a.products = global<float>(products);
    a.to = global<T>(dqkv);
    a.partials = global<float>(partials);
    a.chunk_rows = chunks.rows;
    launch("query_key_norm_backward", gpu_stream(*context.stream), chunks.grid(), ColumnChunks::kThreads,
           ColumnChunks::shared_bytes<1>(), query_key_gradient<T>, a);
    const GainPartialsArguments<T> arguments{a,
                                             global<float>(ConstView(partials)),
                                             global<float>(dq),
                                             global<float>(dk),
                                             chunks.count,
                                             norm.q.count(),
                                             norm.q.count() + norm.k.count(),
                                             width,
                                             write != Write::overwrite};
    launch_lanes("sum_gain_partials", context, arguments.gains, sum_gain_partials<T>, arguments);
  });
}

}  // namespace trireme
