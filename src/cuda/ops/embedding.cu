// Embedding tables: gather of rows, and the sum of gradient rows by id, in row order: rows are sorted by id (stable
// radix sort), sums of up to 64 rows have the CPU's bits.

#include <algorithm>
#include <bit>

#include "cuda/cuda_ops.h"
#include "cuda/launch.h"
#include "cuda/scratch.h"

namespace trireme {
namespace {

using namespace gpu;

template <class T>
struct GatherArguments {
  RowPacks packs;
  Global<const int32_t> ids, positions;  ///< positions: may be empty
  Global<const T> table, positions_table;
  int64_t first_id, table_rows;
  Global<T> y;
  bool fast, adds;  ///< adds: y += table[id]
};

/// Read: an id per pack, 1 or 2 elements; write 1.
template <class T>
TRIREME_KERNEL gather_rows(GatherArguments<T> a) {
  const auto [row, channel, valid] = a.packs.place();
  if (!valid) return;
  const int64_t width = a.packs.width, id = a.ids[row] - a.first_id;
  Pack x{};
  if (id >= 0 && id < a.table_rows) x = load_pack(a.table, id * width + channel, (id + 1) * width, a.fast);
  if (!a.positions.empty()) {
    const int64_t position = a.positions[row];
    const Pack other = load_pack(a.positions_table, position * width + channel, (position + 1) * width, a.fast);
    TRIREME_UNROLL
    for (int i = 0; i < kPack; ++i) x.v[i] += other.v[i];
  }
  if (a.adds) {
    const Pack old = load_pack(a.y, row * width + channel, (row + 1) * width, a.fast);
    TRIREME_UNROLL
    for (int i = 0; i < kPack; ++i) x.v[i] = old.v[i] + x.v[i];
  }
  store_pack(x, a.y, row * width + channel, (row + 1) * width, a.fast);
}

void gather(Context& context, ConstView ids, ConstView positions, ConstView table, ConstView positions_table,
            int64_t first_id, View y, bool adds) {
  with_element(y.dtype(), [&](auto element) {
    using T = decltype(element);
    const RowPacks rows(y.rows(), y.shape()[1]);
    const GatherArguments<T> arguments{rows,
                                       global<int32_t>(ids),
                                       global<int32_t>(positions),
                                       global<T>(table),
                                       global<T>(positions_table),
                                       first_id,
                                       table.rows(),
                                       global<T>(y),
                                       packs(rows.width, {table, positions_table, y}),
                                       adds};
    launch("embedding", gpu_stream(*context.stream), rows.grid(), RowPacks::kThreads, 0, gather_rows<T>, arguments);
  });
}

template <class T>
struct ScatterArguments {
  RowPacks packs;
  Global<const T> y;
  Global<const int32_t> rows;
  Global<T> x;
  bool fast;
};

template <class T>
TRIREME_KERNEL scatter(ScatterArguments<T> a) {
  const auto [row, channel, valid] = a.packs.place();
  if (!valid) return;
  const int64_t width = a.packs.width, to = a.rows[row];
  store_pack(load_pack(a.y, row * width + channel, (row + 1) * width, a.fast), a.x, to * width + channel,
             (to + 1) * width, a.fast);
}

// ---- sort of row numbers by id

constexpr int kDigits = 256, kSortThreads = 256, kSortWarps = kSortThreads / kWarp;
constexpr int kSortTiles = 8;  ///< of 256 rows each, in turn, per block
constexpr int64_t kSortRows = int64_t{kSortThreads} * kSortTiles;

struct SortArguments {
  Global<const int32_t> ids;
  int64_t first_id, table_rows;
  Global<const int32_t> from;  ///< row numbers of the pass before; empty: 0, 1, ...
  Global<int32_t> to, keys;    ///< keys: written by the last pass only
  Global<int32_t> counts;      ///< [digits, blocks]
  int64_t rows, blocks;
  int shift;
};

/// Ids of other tables come last.
TRIREME_DEVICE int32_t sort_key(const SortArguments& a, int32_t row) {
  const int64_t id = a.ids[row] - a.first_id;
  return static_cast<int32_t>(id >= 0 && id < a.table_rows ? id : a.table_rows);
}

/// Calls place(row, key, digit, rank): rank counts the rows of this digit before this one in the block, on top of
/// begin(digit). Returns, in thread d, the number of rows of digit d on top of begin(d).
template <class Begin, class Place>
TRIREME_DEVICE int32_t rank_block(const SortArguments& a, Begin begin, Place place) {
  SharedMemory memory;
  const auto counts = memory.take<int32_t, kSortWarps * kDigits>("counts");
  const int lane = thread() % kWarp, warp = thread() / kWarp, own_digit = thread();
  int32_t running = begin(own_digit);
  for (int tile = 0; tile < kSortTiles; ++tile) {
    for (int w = 0; w < kSortWarps; ++w) counts[w * kDigits + own_digit] = 0;
    sync_block();
    const int64_t i = static_cast<int64_t>(block_x()) * kSortRows + tile * kSortThreads + thread();
    const bool valid = i < a.rows;
    const int32_t row = valid ? (a.from.empty() ? static_cast<int32_t>(i) : a.from[i]) : 0;
    const int32_t key = valid ? sort_key(a, row) : 0;
    const int digit = key >> a.shift & (kDigits - 1);
    uint32_t same = ballot(valid);  // lanes of this digit
    TRIREME_UNROLL
    for (int bit = 0; bit < 8; ++bit) {
      const bool set = (digit >> bit & 1) != 0;
      const uint32_t votes = ballot(set);
      same &= set ? votes : ~votes;
    }
    const int before = bit_count(same & ((1u << lane) - 1));
    if (valid && before == 0) counts[warp * kDigits + digit] = bit_count(same);
    sync_block();
    for (int w = 0; w < kSortWarps; ++w) {
      const int32_t n = counts[w * kDigits + own_digit];
      counts[w * kDigits + own_digit] = running;
      running += n;
    }
    sync_block();
    if (valid) place(row, key, counts[warp * kDigits + digit] + before);
    sync_block();
  }
  return running;
}

TRIREME_KERNEL count_digits(SortArguments a) {
  const int32_t n = rank_block(
      a, [](int) { return 0; }, [](int32_t, int32_t, int32_t) {});
  a.counts[thread() * a.blocks + block_x()] = n;
}

constexpr int kScanThreads = 1024;

/// counts -> sums of all counts before, in one block.
TRIREME_KERNEL scan_counts(SortArguments a) {
  SharedMemory memory;
  const auto warp_sums = memory.take<int32_t, kScanThreads / kWarp>("warp_sums");
  const int lane = thread() % kWarp, warp = thread() / kWarp;
  const int64_t total = kDigits * a.blocks, share = (total + kScanThreads - 1) / kScanThreads;
  const int64_t first = thread() * share;
  int32_t own = 0;
  for (int64_t i = first; i < first + share && i < total; ++i) own += a.counts[i];
  int32_t sum = own;
  TRIREME_UNROLL
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const int32_t below = shuffle_up(sum, distance);
    if (lane >= distance) sum += below;
  }
  if (lane == kWarp - 1) warp_sums[warp] = sum;
  sync_block();
  int32_t before = sum - own;
  for (int w = 0; w < warp; ++w) before += warp_sums[w];
  for (int64_t i = first; i < first + share && i < total; ++i) {
    const int32_t n = a.counts[i];
    a.counts[i] = before;
    before += n;
  }
}

TRIREME_KERNEL move_rows(SortArguments a) {
  rank_block(
      a, [&](int digit) { return a.counts[digit * a.blocks + block_x()]; },
      [&](int32_t row, int32_t key, int32_t to) {
        a.to[to] = row;
        if (!a.keys.empty()) a.keys[to] = key;
      });
}

// ---- sums

template <class T>
struct SumArguments {
  RowPacks packs;
  Global<const T> dy;
  Global<const int32_t> order, keys;
  Global<float> table, partials;  ///< partials: [runs of kSumChunk places, width]
  int64_t rows, table_rows;
  bool fast, overwrites;
};

/// The first place whose key is at least `key`.
TRIREME_DEVICE int64_t lower_bound(Global<const int32_t> keys, int64_t count, int64_t key) {
  int64_t low = 0, high = count;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (keys[middle] < key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/// Sums are made of chunks of this many rows of an id, in order, so that a frequent id does not hold up all others.
constexpr int64_t kSumChunk = 64;

/// dy of the rows at places [i, end), added in order.
template <class T>
TRIREME_DEVICE Pack sum_places(const SumArguments<T>& a, int64_t i, int64_t end, int64_t channel) {
  const int64_t width = a.packs.width;
  Pack sum{};
  for (int64_t place = i; place < end; ++place) {
    const int64_t row = a.order[place];
    const Pack x = load_pack(a.dy, row * width + channel, (row + 1) * width, a.fast);
    TRIREME_UNROLL
    for (int k = 0; k < kPack; ++k) sum.v[k] = place == i ? x.v[k] : sum.v[k] + x.v[k];
  }
  return sum;
}

/// For each run of kSumChunk places, the sum of the chunk that begins there: at most one that is not the first of its
/// id. a.packs: of the partial sums.
template <class T>
TRIREME_KERNEL sum_chunks(SumArguments<T> a) {
  const auto [run, channel, valid] = a.packs.place();
  if (!valid) return;
  const int64_t first = run * kSumChunk, key = a.keys[first], begin = lower_bound(a.keys, a.rows, key);
  const int64_t chunk = begin + (first - begin + kSumChunk - 1) / kSumChunk * kSumChunk;
  if (chunk == begin || chunk >= a.rows || a.keys[chunk] != key || key >= a.table_rows) return;
  int64_t end = chunk + 1;
  while (end < a.rows && end < chunk + kSumChunk && a.keys[end] == key) ++end;
  const int64_t width = a.packs.width;
  store_pack(sum_places(a, chunk, end, channel), a.partials, run * width + channel, (run + 1) * width, a.fast);
}

template <class T>
TRIREME_KERNEL sum_rows_by_id(SumArguments<T> a) {
  const auto [id, channel, valid] = a.packs.place();
  if (!valid) return;
  const int64_t width = a.packs.width, begin = lower_bound(a.keys, a.rows, id);
  int64_t end = begin;
  while (end < a.rows && end < begin + kSumChunk && a.keys[end] == id) ++end;
  if (end == begin && !a.overwrites) return;
  Pack sum = sum_places(a, begin, end, channel);
  for (int64_t chunk = begin + kSumChunk; chunk < a.rows && a.keys[chunk] == id; chunk += kSumChunk) {
    const int64_t run = chunk / kSumChunk;
    const Pack part = load_pack(a.partials, run * width + channel, (run + 1) * width, a.fast);
    TRIREME_UNROLL
    for (int k = 0; k < kPack; ++k) sum.v[k] += part.v[k];
  }
  const int64_t at = id * width + channel, table_end = (id + 1) * width;
  if (!a.overwrites) {
    const Pack old = load_pack(a.table, at, table_end, a.fast);
    TRIREME_UNROLL
    for (int k = 0; k < kPack; ++k) sum.v[k] = old.v[k] + sum.v[k];
  }
  store_pack(sum, a.table, at, table_end, a.fast);
}

}  // namespace

size_t embedding_scratch_bytes(int64_t rows, int64_t width) {
  return scratch_size(DType::i32, rows) * 3 + scratch_size(DType::f32, ceil_divide(rows, kSumChunk) * width) +
         scratch_size(DType::i32, kDigits * ceil_divide(rows, kSortRows));
}

void CudaOps::do_embedding(Context& context, ConstView tokens, ConstView positions, ConstView tokens_table,
                           ConstView positions_table, View y) {
  gather(context, tokens, positions, tokens_table, positions_table, 0, y, false);
}

void CudaOps::do_embedding_part(Context& context, ConstView tokens, ConstView table, TableRows part, View y) {
  gather(context, tokens, {}, table, {}, part.first, y, false);
}

void CudaOps::do_embedding_add(Context& context, ConstView ids, ConstView table, View y) {
  gather(context, ids, {}, table, {}, 0, y, true);
}

void CudaOps::do_scatter_rows(Context& context, ConstView y, ConstView rows, View x) {
  do_zero(context, x);
  with_element(y.dtype(), [&](auto element) {
    using T = decltype(element);
    const RowPacks from(y.rows(), y.shape()[1]);
    const ScatterArguments<T> arguments{from, global<T>(y), global<int32_t>(rows), global<T>(x),
                                        packs(from.width, {y, x})};
    launch("scatter_rows", gpu_stream(*context.stream), from.grid(), RowPacks::kThreads, 0, scatter<T>, arguments);
  });
}

void CudaOps::do_embedding_backward(Context& context, ConstView ids, ConstView dy, View dtable, Write write,
                                    TableRows part) {
  const int64_t rows = ids.rows(), table_rows = dtable.shape()[0];
  if (rows == 0) {
    if (write == Write::overwrite) do_zero(context, dtable);
    return;
  }
  const ArenaScope scope(*context.scratch);
  const View order = context.scratch->take(DType::i32, {rows}), other = context.scratch->take(DType::i32, {rows});
  const View keys = context.scratch->take(DType::i32, {rows});
  const int64_t blocks = ceil_divide(rows, kSortRows);
  const View counts = context.scratch->take(DType::i32, {kDigits * blocks});
  const View partials = context.scratch->take(DType::f32, {ceil_divide(rows, kSumChunk), dtable.shape()[1]});
  const gpu::Stream stream = gpu_stream(*context.stream);
  const auto bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(table_rows)));
  const int passes = (bits + 7) / 8;
  ConstView from;
  for (int pass = 0; pass < passes; ++pass) {
    const View to = pass % 2 == 0 ? order : other;
    const SortArguments arguments{global<int32_t>(ids),
                                  part.first,
                                  table_rows,
                                  global<int32_t>(from),
                                  global<int32_t>(to),
                                  pass + 1 == passes ? global<int32_t>(keys) : Global<int32_t>(),
                                  global<int32_t>(counts),
                                  rows,
                                  blocks,
                                  8 * pass};
    constexpr int kBytes = SharedMemory::bytes<int32_t, kSortWarps * kDigits>;
    launch("count_digits", stream, {blocks, 1, 1}, kSortThreads, kBytes, count_digits, arguments);
    launch("scan_counts", stream, {1, 1, 1}, kScanThreads, SharedMemory::bytes<int32_t, kScanThreads / kWarp>,
           scan_counts, arguments);
    launch("move_rows", stream, {blocks, 1, 1}, kSortThreads, kBytes, move_rows, arguments);
    from = to;
  }
  with_element(dy.dtype(), [&](auto element) {
    using T = decltype(element);
    const int64_t width = dtable.shape()[1];
    const auto run = [&](const char* name, void (*kernel)(SumArguments<T>), const RowPacks& packs_of) {
      const SumArguments<T> arguments{packs_of,
                                      global<T>(dy),
                                      global<int32_t>(from),
                                      global<int32_t>(ConstView(keys)),
                                      global<float>(dtable),
                                      global<float>(partials),
                                      rows,
                                      table_rows,
                                      packs(width, {dy, dtable}),
                                      write == Write::overwrite};
      launch(name, stream, packs_of.grid(), RowPacks::kThreads, 0, kernel, arguments);
    };
    run("embedding_chunks", sum_chunks<T>, RowPacks(partials.rows(), width));
    run("embedding_backward", sum_rows_by_id<T>, RowPacks(table_rows, width));
  });
}

}  // namespace trireme
