// Rotary positions: a table of cosines and sines, made once on the host, then every query and key turned in place.

#include <cmath>
#include <vector>

#include "cuda/cuda_ops.h"
#include "cuda/launch.h"

namespace trireme {
namespace {

using namespace gpu;

template <class T>
struct RotaryArguments {
  Global<T> qkv;
  Global<const int32_t> positions;
  Global<const float> table;
  int64_t rows, kv_heads, parts, head_dim, half;  ///< parts: of a group; the last one, its value, stays
  Divider packs;                                  ///< per group: of 8 pairs
  float sign;
  bool fast;
};

/// A thread turns 8 neighbouring pairs of a group's queries and key: block_x counts rows, block_y the packs of a row.
template <class T>
TRIREME_KERNEL turn_rows(RotaryArguments<T> a) {
  const int64_t row = block_x();
  const auto i = static_cast<uint32_t>(block_y() * threads() + thread());
  const uint32_t head = a.packs.divide(i), pack = i - head * a.packs.divisor;
  if (head >= a.kv_heads) return;
  const int64_t first = static_cast<int64_t>(pack) * kPack, at = a.positions[row] * 2 * a.half;
  const Pack c = load_pack(a.table, at + first, at + a.half, a.fast);
  const Pack s = load_pack(a.table, at + a.half + first, at + 2 * a.half, a.fast);
  for (int64_t part = 0; part + 1 < a.parts; ++part) {
    const int64_t x = ((row * a.kv_heads + head) * a.parts + part) * a.head_dim;
    Pack low = load_pack(a.qkv, x + first, x + a.half, a.fast);
    Pack high = load_pack(a.qkv, x + a.half + first, x + 2 * a.half, a.fast);
    TRIREME_UNROLL
    for (int k = 0; k < kPack; ++k) {
      const float sine = a.sign * s.v[k], u = low.v[k], v = high.v[k];
      low.v[k] = u * c.v[k] - v * sine;
      high.v[k] = v * c.v[k] + u * sine;
    }
    store_pack(low, a.qkv, x + first, x + a.half, a.fast);
    store_pack(high, a.qkv, x + a.half + first, x + 2 * a.half, a.fast);
  }
}

}  // namespace

void CudaOps::do_rotary_table(Context& context, std::span<const float> frequencies, double factor, View table) {
  const int64_t dims = table.shape()[1], half = dims / 2;
  std::vector<float> values(static_cast<size_t>(table.count()));
  for (int64_t p = 0; p < table.rows(); ++p)
    for (int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(p) * static_cast<double>(frequencies[static_cast<size_t>(i)]);
      values[static_cast<size_t>(p * dims + i)] = static_cast<float>(factor * std::cos(angle));
      values[static_cast<size_t>(p * dims + half + i)] = static_cast<float>(factor * std::sin(angle));
    }
  context.stream->copy(ConstView(std::span<const float>(values), table.shape()), table);
}

void CudaOps::do_rotary(Context& context, View qkv, ConstView positions, ConstView table, bool inverse) {
  const int64_t half = table.shape()[1] / 2, heads = qkv.shape()[1], head_dim = qkv.shape()[3];
  if (half == 0) return;
  with_element(qkv.dtype(), [&](auto element) {
    using T = decltype(element);
    const Divider per_head(ceil_divide(half, kPack));
    const RotaryArguments<T> arguments{global<T>(qkv),
                                       global<int32_t>(positions),
                                       global<float>(table),
                                       qkv.rows(),
                                       heads,
                                       qkv.shape()[2],
                                       head_dim,
                                       half,
                                       per_head,
                                       inverse ? -1.0f : 1.0f,
                                       packs(half, {qkv, table}) && head_dim % kPack == 0};
    launch("rotary", gpu_stream(*context.stream), {qkv.rows(), ceil_divide(heads * per_head.divisor, 64), 1}, 64, 0,
           turn_rows<T>, arguments);
  });
}

}  // namespace trireme
