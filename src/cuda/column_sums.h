#pragma once
// Sums over the rows of a matrix, column by column: chunks of rows in parallel, then the chunks' sums in order. What is
// a chunk depends on the shape alone.

#include <algorithm>

#include "cuda/launch.h"
#include "ops/ops.h"

namespace trireme {

struct ColumnChunks {
  static constexpr int kColumns = gpu::kWarp * gpu::kPack, kRowLanes = 8, kThreads = gpu::kWarp * kRowLanes;
  int64_t count, rows;  ///< rows: of each chunk but the last
  int64_t column_blocks;

  ColumnChunks(int64_t all_rows, int64_t width) : column_blocks(ceil_divide(width, kColumns)) {
    // Enough blocks for a large GPU, and at least four rows for each row lane.
    const int64_t wanted = std::clamp<int64_t>(512 / column_blocks, 1, 128);
    rows = std::max<int64_t>(4 * kRowLanes, ceil_divide(all_rows, wanted));
    count = std::max<int64_t>(1, ceil_divide(all_rows, rows));
  }
  gpu::Grid grid() const { return {column_blocks, count, 1}; }
  template <int kSums>
  static constexpr int shared_bytes() {
    return gpu::SharedMemory::bytes<float, kSums * kRowLanes * kColumns>;
  }
};

/// One block's share, with the grid and the threads of ColumnChunks: load(row, channel) reads a pack of a row, kAhead
/// rows before the first of them is added; add(row, channel, loaded, sums) adds it to kSums packs, store(which, chunk,
/// channel, sum) keeps a complete sum.
template <int kSums, int kAhead, class Load, class Add, class Store>
TRIREME_DEVICE void sum_chunk(int64_t rows, int64_t width, int64_t chunk_rows, Load load, Add add, Store store) {
  using namespace gpu;
  constexpr int kColumns = ColumnChunks::kColumns, kRowLanes = ColumnChunks::kRowLanes;
  SharedMemory memory;
  const auto shared = memory.take<float, kSums * kRowLanes * kColumns>("column_sums");
  const int column = thread() % kWarp, row_lane = thread() / kWarp;
  const int64_t first_channel = static_cast<int64_t>(block_x()) * kColumns;
  const int64_t channel = first_channel + column * kPack;
  const int64_t begin = block_y() * chunk_rows, end = begin + chunk_rows < rows ? begin + chunk_rows : rows;
  Pack sums[kSums] = {};
  if (channel < width)
    for (int64_t row = begin + row_lane; row < end; row += kAhead * kRowLanes) {
      decltype(load(row, channel)) loaded[kAhead];
      TRIREME_UNROLL
      for (int n = 0; n < kAhead; ++n)
        if (row + n * kRowLanes < end) loaded[n] = load(row + n * kRowLanes, channel);
      TRIREME_UNROLL
      for (int n = 0; n < kAhead; ++n)
        if (row + n * kRowLanes < end) add(row + n * kRowLanes, channel, loaded[n], sums);
    }
  TRIREME_UNROLL
  for (int s = 0; s < kSums; ++s) TRIREME_UNROLL
  for (int i = 0; i < kPack; ++i) shared[(s * kRowLanes + row_lane) * kColumns + i * kWarp + column] = sums[s].v[i];
  sync_block();
  // Element i of every pack lies in the i-th run of 32: no two lanes of a warp meet in a bank.
  const int place = thread(), of_channel = place % kWarp * kPack + place / kWarp;
  if (first_channel + of_channel >= width) return;
  for (int s = 0; s < kSums; ++s) {
    float sum = 0;
    for (int r = 0; r < kRowLanes; ++r) sum += shared[(s * kRowLanes + r) * kColumns + place];
    store(s, block_y(), first_channel + of_channel, sum);
  }
}

/// Long sums of neighbouring columns, in blocks of 32: each lane of a column adds every kSumLanes-th of its values,
/// then the lanes' sums are added in order.
constexpr int kSumLanes = 16;
/// The column of the calling thread.
TRIREME_DEVICE int64_t lane_column() {
  return static_cast<int64_t>(gpu::block_x()) * gpu::kWarp + gpu::thread() % gpu::kWarp;
}
/// value(0) + ... + value(count - 1) of the column; complete in the first warp. All threads of the block call it.
template <class Value>
TRIREME_DEVICE float sum_in_lanes(int64_t count, Value value) {
  using namespace gpu;
  SharedMemory memory;
  const auto shared = memory.take<float, kSumLanes * kWarp>("sum_in_lanes");
  float sum = 0;
  for (int64_t i = thread() / kWarp; i < count; i += kSumLanes) sum += value(i);
  shared[thread()] = sum;
  sync_block();
  if (thread() >= kWarp) return 0;
  for (int lane = 1; lane < kSumLanes; ++lane) sum += shared[lane * kWarp + thread()];
  return sum;
}
/// Runs a kernel that calls sum_in_lanes() for `columns` columns.
template <class Arguments>
void launch_lanes(const char* name, Context& context, int64_t columns, void (*kernel)(Arguments),
                  const Arguments& arguments) {
  gpu::launch(name, gpu_stream(*context.stream), {ceil_divide(columns, gpu::kWarp), 1, 1}, kSumLanes * gpu::kWarp,
              gpu::SharedMemory::bytes<float, kSumLanes * gpu::kWarp>, kernel, arguments);
}

/// out =/+= sum over the rows of partials [n, width] f32, in order.
void add_partials(Context& context, ConstView partials, View out, Write write);

}  // namespace trireme
