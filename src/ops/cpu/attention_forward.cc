// Attention without its matrix: for a block of queries, tiles of keys are visited one after the other, with a running
// maximum and sum per query. Scores are kept times log2(e), so that 2^x takes the place of e^x.
// Source: Dao et al. 2022, algorithm 1; Dao 2023 for the order of the loops.

#include "ops/cpu/attention.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/attention_forward.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/cpu/attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

constexpr int64_t kQueries = 96;  // sixteen register tiles or three, which share each loaded tile of keys

/// Keys that a query meets at a time, whole tiles of them. Its output is read and written, and perhaps scaled again,
/// once per span, and what a row costs besides its exponentials is shared by more of them. Products of bf16 are fast
/// enough for that to matter; f32 would need twice the cache.
template <class E>
constexpr int64_t kSpan = is_bf16<E> ? 4 * kKeys : kKeys;

/// The working memory of one task, cut from its thread's scratch. E: element type of operands.
template <class E>
struct ForwardTile {
  static constexpr int64_t kRows = Products<E>::kRows;
  E *keys, *values;         ///< [blocks, whole_steps(head_dim), kKeys] transposed; [whole_steps(length), dim] as steps
  E *query, *weights;       ///< [kQueries, row_steps(head_dim)]; [kRows, kSpan]
  float* out;               ///< [kQueries, dim], not yet divided by the sum
  float *maximum, *sum;     ///< [kQueries]; [kQueries, 16] a partial sum per lane
  float *scores, *factors;  ///< [kRows, kSpan]; [kSpan + 16]
};

/// How much a score may exceed the subtracted value before its query is rescaled. Weights and sums of up to 2^8 lose
/// nothing in f32, and tiles after the first one rarely reach it. In bf16 the greatest weight is exact only if it is 1.
/// Source: Zadouri et al. 2026 (FlashAttention-4), the conditional rescaling.
template <class E>
constexpr float kSlack = is_bf16<E> ? 0 : 8;

/// weights = 2^(factor * scores - maximum) of the columns from `skip` on, dropped where asked; the query's sum and
/// output follow. The maximum, that of the strip's first tile or of a later one that exceeds it by more than kSlack, is
/// kept times the positive factor.
template <class T, class E>
HWY_INLINE void softmax_row(const ForwardTile<E>& t, const DropoutRows& dropout, int64_t row, float scale,
                            float* scores, E* weights, Seen seen, int64_t skip, int64_t columns, int64_t query,
                            int64_t first_key, bool first_tile, int64_t dim) {
  const TagF32 d;
  const VecF32 factor = hn::Set(d, scale);
  if (seen.begin >= seen.end) {  // others of its strip see keys of this tile
    std::fill(weights + skip, weights + columns, E{});
    if (!first_tile) return;
    t.maximum[row] = -HUGE_VALF;  // any score exceeds it
    return hn::StoreU(hn::Zero(d), d, t.sum + row * 16);
  }
  VecF32 most = hn::Set(d, -HUGE_VALF);
  for (int64_t j = skip; j < columns; j += kLanes) {
    VecF32 s = hn::LoadU(d, scores + j);
    if (j + kLanes > seen.end) {
      s = hn::IfThenElse(first_lanes(seen.end - j), s, hn::Set(d, -HUGE_VALF));
      hn::StoreU(s, d, scores + j);
    }
    if (j < seen.begin) {
      s = hn::IfThenElse(first_lanes(seen.begin - j), hn::Set(d, -HUGE_VALF), s);
      hn::StoreU(s, d, scores + j);
    }
    most = hn::Max(most, s);
  }
  VecF32 sum = hn::Zero(d);
  if (first_tile) {
    t.maximum[row] = max_lanes(most) * scale;
  } else {
    sum = hn::LoadU(d, t.sum + row * 16);
    const float before = t.maximum[row];
    if (!hn::AllFalse(d, hn::Gt(hn::Mul(most, factor), hn::Set(d, before + kSlack<E>)))) {
      const float now = max_lanes(most) * scale;
      const VecF32 shrink = exp2_f32(hn::Set(d, before - now));
      sum = hn::Mul(sum, shrink);
      float* out = t.out + row * dim;
      for (int64_t c = 0; c < dim; c += kLanes) hn::StoreU(hn::Mul(hn::LoadU(d, out + c), shrink), d, out + c);
      t.maximum[row] = now;
    }
  }
  const VecF32 top = hn::Set(d, t.maximum[row]);
  if (dropout.on())
    for (int64_t j = skip, end; j < columns; j = end) {
      end = std::min(columns, j + kKeys);
      dropout.factors(query, first_key + j, end - j, t.factors + j);
    }
  const auto exponentials = [&](auto drops) HWY_ATTR {
    const auto weight_at = [&](int64_t j) HWY_ATTR {
      const VecF32 p = exp2_of<T>(hn::MulSub(hn::LoadU(d, scores + j), factor, top));
      sum = hn::Add(sum, p);
      return drops ? hn::Mul(p, hn::LoadU(d, t.factors + j)) : p;
    };
    int64_t j = skip;
    if constexpr (is_bf16<E>)
      for (; j + 2 * kLanes <= columns; j += 2 * kLanes) {
        const VecF32 first = weight_at(j);
        store_in_order(first, weight_at(j + kLanes), weights + j);
      }
    for (; j < columns; j += kLanes) store(weight_at(j), weights + j, AllLanes{});
  };
  dropout.on() ? exponentials(std::true_type()) : exponentials(std::false_type());
  hn::StoreU(sum, d, t.sum + row * 16);
}

/// `count` queries of one head of the group, from query `first` of the sequence.
struct QueryBlock {
  int64_t member, first, count;
};

/// Adds a span of keys to a block of queries.
template <class T, class E>
HWY_INLINE void attend_span(const AttentionForward& call, Products<E>& products, const ForwardTile<E>& t,
                            const DropoutRows& dropout, const NextTask<T>& next, Rows<T> out, const QueryBlock& block,
                            int64_t first_key, int64_t keys) {
  const int64_t head_dim = call.shape.head_dim, dim = padded_head_dim(head_dim), steps = row_steps<E>(head_dim);
  const bool causal = call.shape.causal;
  const Scores score(call.shape);
  for (int64_t r = 0; r < block.count; r += t.kRows) {
    const int64_t rows = std::min(t.kRows, block.count - r), query = block.first + r;
    const int64_t seen = causal ? std::min(keys, query + rows - first_key) : keys;
    const int64_t oldest = first_seen(call.shape, query);
    if (seen <= 0 || oldest >= first_key + keys) continue;
    const bool first_tile = first_key <= oldest;
    if (first_tile)
      for (int64_t i = 0; i < rows; ++i) foresee_write(out, query + i, head_dim);
    const int64_t columns = whole_columns<E>(seen), weights = whole_steps<E>(seen);
    const int64_t skip = unseen_keys<E>(call.shape, query, first_key);
    for (int64_t j = skip, end; j < columns; j = end) {  // tile by tile
      end = std::min(columns, j / kKeys * kKeys + kKeys);
      products.multiply(rows, end - j, whole_steps<E>(head_dim), t.query + r * steps, steps,
                        t.keys + key_tile<E>((first_key + j) / kKeys * kKeys, head_dim) + j % kKeys * kStep<E>, kKeys,
                        t.scores + j, kSpan<E>, false);
    }
    for (int64_t i = 0; i < rows; ++i) {
      if (first_tile) next.foresee(block.member, query + i);
      const Seen keys_seen{first_seen(call.shape, query + i) - first_key,
                           causal ? std::min(seen, query + i + 1 - first_key) : seen};
      if (score.capped()) score.apply_cap(t.scores + i * kSpan<E> + skip, columns - skip);
      softmax_row<T>(t, dropout, r + i, score.factor, t.scores + i * kSpan<E>, t.weights + i * kSpan<E>, keys_seen,
                     skip, columns, query + i, first_key, first_tile, dim);
    }
    if (columns < weights)
      for (int64_t i = 0; i < rows; ++i)
        std::fill(t.weights + i * kSpan<E> + columns, t.weights + i * kSpan<E> + weights, E{});
    products.multiply(rows, dim, weights - skip, t.weights + skip, kSpan<E>, t.values + (first_key + skip) * dim, dim,
                      t.out + r * dim, dim, !first_tile);
  }
}

template <class T, class E>
void finish_queries(const AttentionForward& call, const AttentionTask& task, const ForwardTile<E>& t, Rows<T> out,
                    const QueryBlock& block) {
  const int64_t dim = padded_head_dim(call.shape.head_dim);
  float* lse = call.lse.as<float>() + head_of(call.shape, task, block.member) * call.qkv.rows() + task.begin;
  for (int64_t i = 0; i < block.count; ++i) {
    const float sum = sum_lanes(hn::LoadU(TagF32(), t.sum + i * 16));
    lse[block.first + i] = t.maximum[i] * kLn2 + std::log(sum);
    store_rows(t.out + i * dim, dim, 1, call.shape.head_dim, 1.0f / sum, out.from(block.first + i));
  }
}

template <class E>
ForwardTile<E> cut_scratch(float* scratch, int64_t length, int64_t head_dim) {
  const int64_t dim = padded_head_dim(head_dim), padded_length = (length + kKeys - 1) / kKeys * kKeys;
  Cutter cut(scratch);
  ForwardTile<E> t;
  t.keys = cut.take<E>(key_tile<E>(padded_length, head_dim));
  t.values = cut.take<E>(padded_length * dim);
  t.query = cut.take<E>(kQueries * row_steps<E>(head_dim));
  t.weights = cut.take<E>(t.kRows * kSpan<E>);
  t.out = cut.take<float>(kQueries * dim);
  t.maximum = cut.take<float>(kQueries);
  t.sum = cut.take<float>(kQueries * 16);
  t.scores = cut.take<float>(t.kRows * kSpan<E>);
  t.factors = cut.take<float>(kSpan<E> + 16);
  return t;
}

template <class T, class E>
void forward_task(const AttentionForward& call, const AttentionTask& task, const AttentionTask& later, float* scratch) {
  const int64_t head_dim = call.shape.head_dim, dim = padded_head_dim(head_dim), length = task.length;
  const ForwardTile<E> t = cut_scratch<E>(scratch, length, head_dim);
  Products<E> products;
  const auto k = key_rows<T>(call.qkv, call.shape, task);
  copy_steps(value_rows<T>(call.qkv, call.shape, task), length, head_dim, t.values, dim);
  for (int64_t j = 0; j < length; j += kKeys)
    transpose_rows(k.from(j), std::min(kKeys, length - j), head_dim, t.keys + key_tile<E>(j, head_dim));

  NextTask<T> next(call.shape, task, later);
  next.add_qkv(call.qkv);
  const int64_t blocks = (length + kQueries - 1) / kQueries;
  for (int64_t n = task.split; n < call.shape.group * blocks; n += call.splits) {
    const int64_t first = n % blocks * kQueries;
    const QueryBlock block{n / blocks, first, std::min(kQueries, length - first)};
    const auto out = head_rows<T>(call.out, call.shape, task, block.member);
    const DropoutRows dropout(call.dropout, call.shape, task, block.member);
    copy_rows(qkv_rows<T>(call.qkv, call.shape, task, block.member).from(first), block.count, head_dim, t.query,
              row_steps<E>(head_dim));
    const int64_t end = call.shape.causal ? first + block.count : length;
    for (int64_t j = first_seen(call.shape, first) / kKeys * kKeys; j < end; j += kSpan<E>)
      attend_span<T>(call, products, t, dropout, next, out, block, j, std::min(kSpan<E>, length - j));
    finish_queries<T>(call, task, t, out, block);
  }
}

void forward_task_any(const AttentionForward& call, const AttentionTask& task, const AttentionTask& later,
                      float* scratch) {
  with_operands(call.qkv.dtype(), [&](auto element, auto operand) HWY_ATTR {
    forward_task<decltype(element), decltype(operand)>(call, task, later, scratch);
  });
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <omp.h>

namespace trireme {
HWY_EXPORT(forward_task_any);

int64_t attention_forward_floats(int64_t length, const AttentionShape& shape) {
  constexpr int64_t kQueryRows = 96, kKeyRows = 64, kScores = 32 * (256 + 128), kFactors = 256 + 16;
  const int64_t dim = padded_head_dim(shape.head_dim);
  return (length + kKeyRows) * (2 * dim + 1) + kQueryRows * (2 * dim + 1 + 16) + kScores + kFactors;
}

void CpuOps::do_attention(Context& context, ConstView qkv, const AttentionShape& shape, const Dropout& dropout,
                          View out, View lse) {
  const AttentionTasks tasks(shape, context.threads);
  const AttentionForward call{shape, dropout, qkv, out, lse, tasks.splits()};
  const ArenaScope scope(*context.scratch);
  const int64_t floats = attention_forward_floats(tasks.longest(), shape);
  float* scratch = context.scratch->take(DType::f32, {context.threads, floats}).as<float>();
#pragma omp parallel for num_threads(context.threads) schedule(dynamic, 1)
  for (int64_t i = 0; i < tasks.count(); ++i) {
    const AttentionTask later = tasks.at(std::min(i + context.threads, tasks.count() - 1));
    HWY_DYNAMIC_DISPATCH(forward_task_any)(call, tasks.at(i), later, scratch + omp_get_thread_num() * floats);
  }
}

}  // namespace trireme
#endif
