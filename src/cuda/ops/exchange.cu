// Operators of the gradient exchange.

#include <algorithm>

#include "cuda/cuda_ops.h"
#include "cuda/launch.h"
#include "cuda/limits.h"

namespace trireme {
namespace {

using namespace gpu;

/// A launch's arguments hold at most 4 KiB.
constexpr int kMaxParts = 200;

template <class W>
struct ContributionArguments {
  Global<const W> parts[kMaxParts];  ///< empty: the previous own, rounded
  int parts_count;
  Global<float> own;
  Global<W> sum;
  int64_t count;
  bool fast;
};

template <class W>
TRIREME_KERNEL contribution_sums(ContributionArguments<W> a) {
  const int64_t first = flat_pack();
  if (first >= a.count) return;
  const Pack own = load_pack(a.own, first, a.count, a.fast);
  Pack sum;
  for (int p = 0; p < a.parts_count; ++p) {
    Pack part;
    if (a.parts[p].empty()) {
      TRIREME_UNROLL
      for (int i = 0; i < kPack; ++i) part.v[i] = widen(narrow<W>(own.v[i]));
    } else {
      part = load_pack(a.parts[p], first, a.count, a.fast);
    }
    TRIREME_UNROLL
    for (int i = 0; i < kPack; ++i) sum.v[i] = p == 0 ? part.v[i] : sum.v[i] + part.v[i];
  }
  TRIREME_UNROLL
  for (int i = 0; i < kPack; ++i) sum.v[i] = widen(narrow<W>(sum.v[i]));
  store_pack(sum, a.sum, first, a.count, a.fast);
  store_pack(sum, a.own, first, a.count, a.fast);
}

struct RowMapArguments {
  Global<float> x;
  Global<int64_t> map;
  int64_t rows, width;
};

TRIREME_DEVICE bool is_marked(Global<int64_t> map, int64_t row) {
  return (static_cast<uint64_t>(map[row / 64]) >> (row % 64) & 1) != 0;
}

constexpr int kMapWarps = 8;

/// A block per word of the map, a warp per row in turn.
TRIREME_KERNEL mark_touched(RowMapArguments a) {
  SharedMemory memory;
  const auto touched = memory.take<int32_t, 64>("touched");
  const int lane = thread() % kWarp, warp = thread() / kWarp;
  for (int r = warp; r < 64; r += kMapWarps) {
    const int64_t row = static_cast<int64_t>(block_x()) * 64 + r;
    uint32_t bits = 0;
    if (row < a.rows)
      for (int64_t i = lane; i < a.width; i += kWarp) bits |= std::bit_cast<uint32_t>(a.x[row * a.width + i]);
    const uint32_t votes = ballot(bits != 0);
    if (lane == 0) touched[r] = votes != 0 ? 1 : 0;
  }
  sync_block();
  if (thread() == 0) {
    uint64_t word = 0;
    for (int r = 0; r < 64; ++r) word |= static_cast<uint64_t>(touched[r]) << r;
    a.map[block_x()] = static_cast<int64_t>(word);
  }
}

/// A thread per column, rows in order: a row's packed place is never after its own.
TRIREME_KERNEL move_to_front(RowMapArguments a) {
  const int64_t column = static_cast<int64_t>(block_x()) * threads() + thread();
  if (column >= a.width) return;
  int64_t packed = 0;
  for (int64_t row = 0; row < a.rows; ++row)
    if (is_marked(a.map, row)) {
      a.x[packed * a.width + column] = a.x[row * a.width + column];
      ++packed;
    }
}

/// From the back: a row's place is never before its packed one.
TRIREME_KERNEL move_back(RowMapArguments a) {
  const int64_t column = static_cast<int64_t>(block_x()) * threads() + thread();
  if (column >= a.width) return;
  int64_t packed = 0;
  for (int64_t row = 0; row < a.rows; ++row) packed += is_marked(a.map, row) ? 1 : 0;
  for (int64_t row = a.rows - 1; row >= 0; --row) {
    if (is_marked(a.map, row)) {
      --packed;
      a.x[row * a.width + column] = a.x[packed * a.width + column];
    } else {
      a.x[row * a.width + column] = 0;
    }
  }
}

RowMapArguments row_map(View x, ConstView map) {
  return {global<float>(x), {static_cast<int64_t*>(const_cast<void*>(map.data())), map.count()}, x.rows(), x.width()};
}

}  // namespace

void CudaOps::do_sum_contributions(Context& context, std::span<const ConstView> parts, View own, View sum) {
  require_parts(parts.size(), kMaxParts);
  const auto run = [&](auto element) {
    using W = decltype(element);
    ContributionArguments<W> arguments{{},          static_cast<int>(parts.size()), global<float>(own), global<W>(sum),
                                       sum.count(), packs(kPack, {own, sum})};
    for (size_t p = 0; p < parts.size(); ++p) {
      arguments.parts[p] = global<W>(parts[p]);
      arguments.fast = arguments.fast && packs(kPack, {parts[p]});
    }
    launch("sum_contributions", gpu_stream(*context.stream), flat_grid(sum.count()), 256, 0, contribution_sums<W>,
           arguments);
  };
  sum.dtype() == DType::bf16 ? run(bf16_t{}) : run(float{});
}

void CudaOps::do_mark_rows(Context& context, ConstView x, View map) {
  const RowMapArguments arguments = row_map(View(const_cast<void*>(x.data()), x.dtype(), x.shape(), x.device()), map);
  launch("mark_rows", gpu_stream(*context.stream), {ceil_divide(x.rows(), 64), 1, 1}, kMapWarps * kWarp,
         SharedMemory::bytes<int32_t, 64>, mark_touched, arguments);
}

void CudaOps::do_pack_rows(Context& context, View x, ConstView map) {
  launch("pack_rows", gpu_stream(*context.stream), {ceil_divide(x.width(), 64), 1, 1}, 64, 0, move_to_front,
         row_map(x, map));
}

void CudaOps::do_unpack_rows(Context& context, View x, ConstView map) {
  launch("unpack_rows", gpu_stream(*context.stream), {ceil_divide(x.width(), 64), 1, 1}, 64, 0, move_back,
         row_map(x, map));
}

}  // namespace trireme
