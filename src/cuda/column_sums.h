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

/// One block's share, with the grid and the threads of ColumnChunks: add(row, channel, sums) adds a pack of a row to
/// kSums packs, store(which, chunk, channel, sum) keeps a complete sum.
template <int kSums, class Add, class Store>
TRIREME_DEVICE void sum_chunk(int64_t rows, int64_t width, int64_t chunk_rows, Add add, Store store) {
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
    for (int64_t row = begin + row_lane; row < end; row += kRowLanes) add(row, channel, sums);
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

/// out =/+= sum over the rows of partials [n, width] f32, in order.
void add_partials(Context& context, ConstView partials, View out, Write write);

}  // namespace trireme
