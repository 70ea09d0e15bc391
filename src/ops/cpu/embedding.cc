// Embedding tables: gather of rows, and the sum of gradient rows by id.

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/highway_targets.h"
#include "ops/cpu/team.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/embedding.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

template <class T>
void gather(ConstView tokens, ConstView positions, ConstView tokens_table, ConstView positions_table, View y,
            Range rows) {
  const int64_t width = y.shape()[1];
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const T* token = tokens_table.as<T>() + tokens.as<int32_t>()[row] * width;
    T* out = y.as<T>() + row * width;
    if (positions.empty()) {
      std::memcpy(out, token, static_cast<size_t>(width) * sizeof(T));
      continue;
    }
    const T* position = positions_table.as<T>() + positions.as<int32_t>()[row] * width;
    for_each_vector(width, [&](int64_t i, auto lanes) HWY_ATTR {
      store(hn::Add(load(token + i, lanes), load(position + i, lanes)), out + i, lanes);
    });
  }
}

template <class T>
void gather_part(ConstView tokens, ConstView table, int64_t first, View y, Range rows) {
  const int64_t width = y.shape()[1], table_rows = table.shape()[0];
  const size_t bytes = static_cast<size_t>(width) * sizeof(T);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const int64_t own = tokens.as<int32_t>()[row] - first;
    T* out = y.as<T>() + row * width;
    own >= 0 && own < table_rows ? std::memcpy(out, table.as<T>() + own * width, bytes) : std::memset(out, 0, bytes);
  }
}

template <class T>
void gather_add(ConstView ids, ConstView table, View y, Range rows) {
  const int64_t width = y.shape()[1];
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const T* in = table.as<T>() + ids.as<int32_t>()[row] * width;
    T* out = y.as<T>() + row * width;
    for_each_vector(width, [&](int64_t i, auto lanes)
                               HWY_ATTR { store(hn::Add(load(out + i, lanes), load(in + i, lanes)), out + i, lanes); });
  }
}

void embedding_add_rows(ConstView ids, ConstView table, View y, Range rows) {
  y.dtype() == DType::bf16 ? gather_add<bf16_t>(ids, table, y, rows) : gather_add<float>(ids, table, y, rows);
}

/// out[i] =/+= sum of dy[rows[k]][i] for k in [0, n), in this order, complete before it reaches out.
template <class T>
void sum_group(const T* dy, const int32_t* rows, int64_t n, int64_t width, float* out, Write write) {
  for_each_vector(width, [&](int64_t i, auto lanes) HWY_ATTR {
    VecF32 sum = load(dy + rows[0] * width + i, lanes);
    for (int64_t k = 1; k < n; ++k) sum = hn::Add(sum, load(dy + rows[k] * width + i, lanes));
    if (write != Write::overwrite) sum = hn::Add(load(out + i, lanes), sum);
    store(sum, out + i, lanes);
  });
}

void embedding_rows(ConstView tokens, ConstView positions, ConstView tokens_table, ConstView positions_table, View y,
                    Range rows) {
  y.dtype() == DType::bf16 ? gather<bf16_t>(tokens, positions, tokens_table, positions_table, y, rows)
                           : gather<float>(tokens, positions, tokens_table, positions_table, y, rows);
}

void embedding_part_rows(ConstView tokens, ConstView table, int64_t first, View y, Range rows) {
  y.dtype() == DType::bf16 ? gather_part<bf16_t>(tokens, table, first, y, rows)
                           : gather_part<float>(tokens, table, first, y, rows);
}

/// The sums of the ids whose first row is in this share of `order`: `rows` rows sorted by id. dtable's first row is
/// that of id `first_id`.
void embedding_sums(const int32_t* id, const int32_t* order, int64_t rows, ConstView dy, View dtable, int64_t first_id,
                    Write write, Range share) {
  const int64_t width = dy.shape()[1];
  int64_t first = share.begin;
  while (first > 0 && first < share.end && id[order[first]] == id[order[first - 1]]) ++first;
  while (first < share.end) {
    const int32_t group = id[order[first]];
    int64_t end = first + 1;
    while (end < rows && id[order[end]] == group) ++end;
    float* out = dtable.as<float>() + (group - first_id) * width;
    dy.dtype() == DType::bf16 ? sum_group(dy.as<bf16_t>(), order + first, end - first, width, out, write)
                              : sum_group(dy.as<float>(), order + first, end - first, width, out, write);
    first = end;
  }
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {

HWY_EXPORT(embedding_rows);
HWY_EXPORT(embedding_part_rows);
HWY_EXPORT(embedding_sums);
HWY_EXPORT(embedding_add_rows);

namespace {

constexpr int kDigitBits = 11;  // 2048 counters of 4 bytes fill a quarter of a first-level cache; ids take two passes
constexpr int64_t kDigits = int64_t{1} << kDigitBits;

/// Rows whose ids a table has, by id.
struct SortedRows {
  const int32_t* id;     ///< of each row
  const int32_t* order;  ///< row numbers
  int64_t count;
  int64_t first_id;  ///< of the table's first row
};

/// Row numbers sorted by id, rows of one id in rising order (radix sort, stable).
SortedRows sort_rows_by_id(Arena& scratch, ConstView ids, int64_t first_id, int64_t table_rows) {
  const int32_t* id = ids.as<int32_t>();
  int32_t* order = scratch.take(DType::i32, {ids.rows()}).as<int32_t>();
  int32_t* sorted = scratch.take(DType::i32, {ids.rows()}).as<int32_t>();
  int64_t rows = 0;
  for (int64_t row = 0; row < ids.rows(); ++row) {
    if (id[row] >= first_id && id[row] < first_id + table_rows) order[rows++] = static_cast<int32_t>(row);
  }
  for (int shift = 0; (table_rows - 1) >> shift > 0; shift += kDigitBits) {
    std::array<int32_t, kDigits> start{};
    const auto digit = [&](int32_t row) { return static_cast<size_t>((id[row] - first_id) >> shift & (kDigits - 1)); };
    for (int64_t i = 0; i < rows; ++i) ++start[digit(order[i])];
    for (int32_t sum = 0; auto& s : start) sum += std::exchange(s, sum);
    for (int64_t i = 0; i < rows; ++i) sorted[start[digit(order[i])]++] = order[i];
    std::swap(order, sorted);
  }
  return {id, order, rows, first_id};
}

/// Zeroes the rows of this share of the table that no id names.
void zero_unnamed(const SortedRows& rows, View dtable, Range share) {
  const int64_t width = dtable.shape()[1];
  const auto place = [&](int32_t row) { return rows.id[row] - rows.first_id; };
  const auto zero = [&](int64_t begin, int64_t end) {
    std::memset(dtable.as<float>() + begin * width, 0, static_cast<size_t>((end - begin) * width) * sizeof(float));
  };
  const int32_t* end = rows.order + rows.count;
  const int32_t* next = std::partition_point(rows.order, end, [&](int32_t r) { return place(r) < share.begin; });
  int64_t begin = share.begin;
  for (; next < end && place(*next) < share.end; ++next) {
    if (place(*next) > begin) zero(begin, place(*next));
    begin = place(*next) + 1;
  }
  if (begin < share.end) zero(begin, share.end);
}

}  // namespace

void CpuOps::do_embedding(Context& context, ConstView tokens, ConstView positions, ConstView tokens_table,
                          ConstView positions_table, View y) {
  for_each_part(context.threads, [&](int part) {
    HWY_DYNAMIC_DISPATCH(embedding_rows)
    (tokens, positions, tokens_table, positions_table, y, share_of(y.rows(), part, context.threads));
  });
}

void CpuOps::do_embedding_part(Context& context, ConstView tokens, ConstView table, TableRows part, View y) {
  for_each_part(context.threads, [&](int share) {
    HWY_DYNAMIC_DISPATCH(embedding_part_rows)
    (tokens, table, part.first, y, share_of(y.rows(), share, context.threads));
  });
}

void CpuOps::do_embedding_add(Context& context, ConstView ids, ConstView table, View y) {
  for_each_part(context.threads, [&](int part) {
    HWY_DYNAMIC_DISPATCH(embedding_add_rows)(ids, table, y, share_of(y.rows(), part, context.threads));
  });
}

void CpuOps::do_scatter_rows(Context&, ConstView y, ConstView rows, View x) {
  const size_t bytes = static_cast<size_t>(x.shape()[1]) * size_of(x.dtype());
  std::memset(x.data(), 0, x.bytes());
  for (int64_t i = 0; i < y.rows(); ++i) {
    std::memcpy(x.rows_slice(rows.as<int32_t>()[i], 1).data(), y.rows_slice(i, 1).data(), bytes);
  }
}

void CpuOps::do_embedding_backward(Context& context, ConstView ids, ConstView dy, View dtable, Write write,
                                   TableRows part) {
  const int64_t table_rows = dtable.shape()[0];
  const ArenaScope scope(*context.scratch);
  const SortedRows rows = sort_rows_by_id(*context.scratch, ids, part.first, table_rows);
  const bool mostly_zero = write == Write::overwrite && ids.rows() < table_rows / kSparseTable;
  if (mostly_zero) give_back(dtable);
  for_each_part(context.threads, [&](int share) {
    HWY_DYNAMIC_DISPATCH(embedding_sums)
    (rows.id, rows.order, rows.count, dy, dtable, rows.first_id, write, share_of(rows.count, share, context.threads));
    if (write == Write::overwrite && !mostly_zero)
      zero_unnamed(rows, dtable, share_of(table_rows, share, context.threads));
  });
}

}  // namespace trireme
#endif
