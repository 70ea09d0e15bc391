// Gradient of attention: for each tile of keys, blocks of queries are visited and their probabilities P made again from
// the saved log-sum-exp. With M the dropout factors and D = sum_c dO O:
//   dP = dO v^T;  dS = P (M dP - D), with a soft cap times 1 - (S / cap)^2;  dV += (M P)^T dO;  dQ += dS k;  dK += dS^T
//   q;  dQ and dK times scale at the end.
// The query heads of a group follow each other: their terms of dK and dV are added in this order.
// Source: Dao 2023.

#include "ops/cpu/attention.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/attention_backward.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/cpu/attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

/// The working memory of one task, cut from its thread's scratch. dim: head_dim padded, steps: row_steps(head_dim);
/// E: element type of operands. Where E is f32 the left and right operands made of the same rows are one array.
///
/// dV and dK are products whose left operand is transposed. Tile registers cannot transpose it: they make dV^T and
/// dK^T, from rows that are transposed once and P and dS as stored.
template <class E>
struct BackwardTile {
  static constexpr int64_t kRows = Products<E>::kRows;
  /// Queries at once, over which sums of dK and dV stay in registers, and keys at once, over which those of dQ do.
  /// Tile registers multiply so fast that reading and writing sums counts: they take more of both, in the second-level
  /// cache.
  static constexpr int64_t kBlock = Products<E>::kInTiles ? 192 : 96;
  static constexpr int64_t kSpan = Products<E>::kInTiles ? 2 * kKeys : kKeys;
  E *query, *dout;                   ///< [length, steps]
  E *query_steps, *dout_steps;       ///< [length, dim] as steps of k; in tiles [dim, length_steps]
  E *keys_t, *values_t, *key_steps;  ///< twice [kSpan / kKeys, steps, kKeys]; [kSpan, dim]
  E *p_t, *ds_t, *ds;                ///< [kBlock, kSpan] M P and dS as steps; dS [kBlock, kSpan]
  float* dquery;                     ///< [length, dim]
  float *dkeys, *dvalues;            ///< [kSpan, dim] each, of the present span; in tiles [dim, kSpan]
  float *shift, *lse;                ///< [length]: D; lse * log2(e)
  float *scores, *dp, *factors;      ///< [kRows, kSpan], [kRows, kSpan], [kStep<E>, kSpan + 16]
  float* rows;                       ///< in tiles [kSpan, dim]: dV^T and dK^T turned back
  int64_t length_steps;              ///< whole_steps(length); in tiles one step more
};

/// A query's scores and dP for the keys of a span; `seen` of a query that does not exist is empty.
struct GradientRow {
  Seen seen;
  float* scores;
  const float *dp, *factors;
  VecF32 lse, shift;
};

/// What becomes of one vector of them: M P and dS, zeros where the query sees no key.
struct Gradients {
  VecF32 p, ds;
};
/// Those of the columns from j on.
template <class T, bool kDrops, bool kCapped>
HWY_INLINE Gradients gradients_at(const Scores& score, const GradientRow& row, int64_t j) {
  const TagF32 d;
  const VecF32 s = hn::LoadU(d, row.scores + j);
  VecF32 p = exp2_of<T>(hn::MulSub(s, hn::Set(d, score.factor), row.lse)), dp = hn::LoadU(d, row.dp + j);
  if (j + kLanes > row.seen.end) p = hn::IfThenElseZero(first_lanes(row.seen.end - j), p);
  if (j < row.seen.begin) p = hn::IfThenZeroElse(first_lanes(row.seen.begin - j), p);
  VecF32 dropped = p;
  if (kDrops) {
    const VecF32 kept = hn::LoadU(d, row.factors + j);
    dp = hn::Mul(dp, kept);
    dropped = hn::Mul(p, kept);
  }
  VecF32 ds = hn::Mul(p, hn::Sub(dp, row.shift));
  if (kCapped) {
    const VecF32 tanh = hn::Mul(s, hn::Set(d, 1 / score.cap));
    ds = hn::Mul(ds, hn::NegMulAdd(tanh, tanh, hn::Set(d, 1.0f)));
  }
  return {dropped, ds};
}

/// What gradient_rows() makes of a step of k: one row, or two of bf16.
struct GradientStep {
  int64_t in_block, in_strip;  ///< its first row, counted in the block and in the strip
  int64_t query, count;        ///< the same in the sequence; rows that exist
  int64_t first_key, skip;     ///< of the span; columns that no query of the strip sees, whose scores are not made
  int64_t columns;             ///< that are read of M P and dS: zeros where it sees no key
};

/// M P and dS of a step, of whose rows `even` and `odd` (E f32: there is none) see those keys. dS as rows is not made
/// of the columns up to `skip`.
template <class T, bool kDrops, bool kCapped, class E>
HWY_INLINE void gradient_rows(const BackwardTile<E>& t, const DropoutRows& dropout, const Scores& score,
                              const GradientStep& step, Seen even_seen, Seen odd_seen) {
  constexpr int64_t kSpan = BackwardTile<E>::kSpan, kFactors = kSpan + 16;
  const TagF32 d;
  const int64_t skip = step.skip, columns = whole_vectors(std::max({int64_t{0}, even_seen.end, odd_seen.end}));
  const auto row_of = [&](int64_t i, Seen seen) HWY_ATTR {
    const int64_t at = (step.in_strip + i) * kSpan, query = step.query + std::min(i, step.count - 1);
    const GradientRow row{
        seen, t.scores + at, t.dp + at, t.factors + i * kFactors, hn::Set(d, t.lse[query]), hn::Set(d, t.shift[query])};
    if (i >= step.count || skip >= columns) return row;
    if (kDrops)
      for (int64_t j = skip; j < columns; j += kKeys)
        dropout.factors(query, step.first_key + j, std::min(kKeys, columns - j), t.factors + i * kFactors + j);
    if (kCapped) score.apply_cap(row.scores + skip, columns - skip);
    return row;
  };
  const int64_t first = step.in_block * kSpan;
  E *const p_t = t.p_t + first, *const ds_t = t.ds_t + first, *const ds = t.ds + first;
  const auto zeros = [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t j = begin; j < end; j += kLanes) {
      hn::StoreU(hn::Zero(d), d, reinterpret_cast<float*>(p_t + j * kStep<E>));
      hn::StoreU(hn::Zero(d), d, reinterpret_cast<float*>(ds_t + j * kStep<E>));
    }
  };
  const GradientRow even = row_of(0, even_seen);
  zeros(0, skip);
  zeros(std::max(skip, columns), step.columns);
  if constexpr (std::is_same_v<E, float>) {
    for (int64_t j = skip; j < columns; j += kLanes) {
      const Gradients g = gradients_at<T, kDrops, kCapped>(score, even, j);
      store(g.p, p_t + j, AllLanes{});
      store(g.ds, ds_t + j, AllLanes{});
    }
  } else {
    const GradientRow odd = row_of(1, odd_seen);
    const bool both = step.count > 1;
    for (int64_t j = skip; j < columns; j += kLanes) {
      const Gradients g = gradients_at<T, kDrops, kCapped>(score, even, j);
      Gradients more{hn::Zero(d), hn::Zero(d)};
      if (both) more = gradients_at<T, kDrops, kCapped>(score, odd, j);
      store(Pair(g.p, more.p), p_t + 2 * j, PairLanes{});
      store_both(g.ds, more.ds, ds + j, ds + kSpan + j, ds_t + 2 * j);
    }
    for (int64_t j = std::max(skip, columns); j < step.columns; j += kLanes)
      store_both(hn::Zero(d), hn::Zero(d), ds + j, ds + kSpan + j, ds_t + 2 * j);
  }
}

/// dV += (M P)^T dO and dK += dS^T q over a block of queries.
template <class E>
HWY_INLINE void add_to_keys(const AttentionBackward& call, Products<E>& products, const BackwardTile<E>& t,
                            int64_t first_query, int64_t queries, int64_t first_key, int64_t keys) {
  constexpr int64_t kSpan = BackwardTile<E>::kSpan;
  const int64_t dim = padded_head_dim(call.shape.head_dim);
  // The first queries of the block do not see the keys from j on, those from seen_until(j) on not the keys up to j.
  const auto unseen = [&](int64_t j) {
    return call.shape.causal ? std::clamp<int64_t>(first_key + j - first_query, 0, queries) & -Products<E>::kSteps : 0;
  };
  const auto seen_until = [&](int64_t j) {
    const int64_t window = call.shape.window;
    return window > 0 ? std::clamp<int64_t>(first_key + j + window - first_query, 0, queries) : queries;
  };
  if constexpr (Products<E>::kInTiles) {
    const int64_t all = whole_steps<E>(queries), pairs = (queries + 1) / 2;
    std::fill(t.p_t + 2 * pairs * kSpan, t.p_t + all * kSpan, E{});
    std::fill(t.ds_t + 2 * pairs * kSpan, t.ds_t + all * kSpan, E{});
    constexpr int64_t kAtOnce = 2 * Products<E>::kColumns;
    for (int64_t j = 0; j < keys; j += kAtOnce) {
      const int64_t columns = std::min(kAtOnce, whole_columns<E>(keys - j)), skip = unseen(j),
                    count = whole_steps<E>(seen_until(j + columns - 1)) - skip;
      if (count <= 0) continue;
      const E *p = t.p_t + skip * kSpan + 2 * j, *ds = t.ds_t + skip * kSpan + 2 * j;
      for (int64_t c = 0; c < dim; c += t.kRows) {
        const int64_t rows = std::min(t.kRows, dim - c), at = c * t.length_steps + first_query + skip;
        products.multiply(rows, columns, count, t.dout_steps + at, t.length_steps, p, kSpan, t.dvalues + c * kSpan + j,
                          kSpan, true);
        products.multiply(rows, columns, count, t.query_steps + at, t.length_steps, ds, kSpan, t.dkeys + c * kSpan + j,
                          kSpan, true);
      }
    }
  } else {
    for (int64_t j = 0; j < keys; j += t.kRows) {
      const int64_t rows = std::min(t.kRows, keys - j), skip = unseen(j), from = first_query + skip,
                    count = seen_until(j + rows - 1) - skip;
      if (count <= 0) continue;
      multiply<Side::transposed>(rows, dim, count, t.p_t + skip * kSpan + j * kStep<E>, kSpan,
                                 t.dout_steps + from * dim, dim, t.dvalues + j * dim, dim, true);
      multiply<Side::transposed>(rows, dim, count, t.ds_t + skip * kSpan + j * kStep<E>, kSpan,
                                 t.query_steps + from * dim, dim, t.dkeys + j * dim, dim, true);
    }
  }
}

/// One block of queries against one span of keys. ahead(query) prefetches what is needed later.
template <class T, class E, class Ahead>
HWY_INLINE void gradient_tile(const AttentionBackward& call, Products<E>& products, const BackwardTile<E>& t,
                              const DropoutRows& dropout, int64_t first_query, int64_t queries, int64_t first_key,
                              int64_t keys, Ahead&& ahead) {
  const int64_t head_dim = call.shape.head_dim, dim = padded_head_dim(head_dim), steps = row_steps<E>(head_dim),
                k = whole_steps<E>(head_dim);
  const bool causal = call.shape.causal;
  const Scores score(call.shape);
  for (int64_t r = 0; r < queries; r += t.kRows) {
    const int64_t rows = std::min(t.kRows, queries - r), query = first_query + r;
    const int64_t seen = causal ? std::min(keys, query + rows - first_key) : keys, columns = whole_columns<E>(seen);
    const int64_t skip = unseen_keys<E>(call.shape, query, first_key);
    const int64_t all = Products<E>::kInTiles ? whole_steps<E>(keys) : kKeys;
    for (int64_t j = skip, end; j < columns; j = end) {  // tile by tile
      end = std::min(columns, j / kKeys * kKeys + kKeys);
      const int64_t at = key_tile<E>(j / kKeys * kKeys, head_dim) + j % kKeys * kStep<E>;
      products.multiply(rows, end - j, k, t.query + query * steps, steps, t.keys_t + at, kKeys, t.scores + j, t.kSpan,
                        false);
      products.multiply(rows, end - j, k, t.dout + query * steps, steps, t.values_t + at, kKeys, t.dp + j, t.kSpan,
                        false);
    }
    const auto keys_seen = [&](int64_t i) HWY_ATTR {
      return Seen{first_seen(call.shape, query + i) - first_key,
                  causal ? std::min(seen, query + i + 1 - first_key) : seen};
    };
    const auto make_rows = [&](auto drops, auto capped) HWY_ATTR {
      for (int64_t i = 0; i < rows; i += kStep<E>) {
        const GradientStep step{r + i, i, query + i, std::min(kStep<E>, rows - i), first_key, skip, all};
        const Seen odd = step.count > 1 ? keys_seen(i + 1) : Seen{0, 0};
        for (int64_t n = 0; n < step.count; ++n) ahead(query + i + n);
        gradient_rows<T, drops, capped>(t, dropout, score, step, keys_seen(i), odd);
      }
    };
    if (score.capped())
      dropout.on() ? make_rows(std::true_type(), std::true_type()) : make_rows(std::false_type(), std::true_type());
    else
      dropout.on() ? make_rows(std::true_type(), std::false_type()) : make_rows(std::false_type(), std::false_type());
    products.multiply(rows, dim, whole_steps<E>(seen) - skip, t.ds + r * t.kSpan + skip, t.kSpan,
                      t.key_steps + skip * dim, dim, t.dquery + query * dim, dim, true);
  }
  add_to_keys(call, products, t, first_query, queries, first_key, keys);
}

/// dK or dV of a span of keys, times scale, to its rows.
template <class T, class E>
HWY_INLINE void store_gradient(const BackwardTile<E>& t, const float* from, int64_t dim, int64_t keys, int64_t head_dim,
                               float scale, Rows<T> to) {
  if constexpr (Products<E>::kInTiles) {
    const auto load_at = [&](int64_t c, int64_t key)
                             HWY_ATTR { return hn::BitCast(TagU32(), hn::LoadU(TagF32(), from + c * t.kSpan + key)); };
    const auto store_at = [&](int64_t key, int64_t c, VecU32 v)
                              HWY_ATTR { hn::StoreU(hn::BitCast(TagF32(), v), TagF32(), t.rows + key * dim + c); };
    transpose_whole_vectors(dim, dim, whole_columns<E>(keys), load_at, store_at);
    from = t.rows;
  }
  store_rows(from, dim, keys, head_dim, scale, to);
}

/// Left operand of dV^T or dK^T: to [dim, ld] = from [count, head_dim] transposed, with zeros after. pairs: room for
/// [Products<E>::kSteps, dim].
template <class T, class E>
void transpose_length(Rows<const T> from, int64_t count, int64_t head_dim, int64_t dim, E* to, int64_t ld, E* pairs) {
  constexpr int64_t kAtOnce = Products<E>::kSteps;
  for (int64_t row = 0; row < ld; row += kAtOnce) {
    const int64_t rows = std::clamp<int64_t>(count - row, 0, kAtOnce);
    if constexpr (is_bf16<E>) copy_steps(from.from(row), rows, head_dim, pairs, dim);
    const auto load_at = [&](int64_t pair, int64_t c) HWY_ATTR {
      return hn::LoadU(TagU32(), reinterpret_cast<const uint32_t*>(pairs) + pair * dim + c);
    };
    const auto store_at = [&](int64_t c, int64_t pair, VecU32 v) HWY_ATTR {
      hn::StoreU(v, TagU32(), reinterpret_cast<uint32_t*>(to + c * ld + row) + pair);
    };
    transpose_whole_vectors(whole_steps<E>(rows) / 2, kAtOnce / 2, dim, load_at, store_at);
  }
}

template <class T, class E>
void load_queries(const AttentionBackward& call, const AttentionTask& task, int64_t member, const BackwardTile<E>& t) {
  const int64_t head_dim = call.shape.head_dim, dim = padded_head_dim(head_dim), length = task.length;
  const auto query = qkv_rows<T>(call.qkv, call.shape, task, member);
  const auto out = head_rows<T>(call.out, call.shape, task, member);
  const auto dout = head_rows<T>(call.dout, call.shape, task, member);
  copy_rows(query, length, head_dim, t.query, row_steps<E>(head_dim));
  copy_rows(dout, length, head_dim, t.dout, row_steps<E>(head_dim));
  if constexpr (Products<E>::kInTiles) {
    auto* const pairs = reinterpret_cast<E*>(t.rows);
    transpose_length(query, length, head_dim, dim, t.query_steps, t.length_steps, pairs);
    transpose_length(dout, length, head_dim, dim, t.dout_steps, t.length_steps, pairs);
  } else if constexpr (!std::is_same_v<E, float>) {
    copy_steps(query, length, head_dim, t.query_steps, dim);
    copy_steps(dout, length, head_dim, t.dout_steps, dim);
  }
  const float* lse = call.lse.as<float>() + head_of(call.shape, task, member) * call.qkv.rows() + task.begin;
  for (int64_t i = 0; i < length; ++i) {
    t.lse[i] = lse[i] * kLog2E;
    foresee(out, i, head_dim);
    VecF32 sum = hn::Zero(TagF32());
    for_each_vector(head_dim, [&](int64_t c, auto lanes) HWY_ATTR {
      sum = hn::MulAdd(load(out[i] + c, lanes), load(dout[i] + c, lanes), sum);
    });
    t.shift[i] = sum_lanes(sum);
  }
  std::fill_n(t.dquery, length * dim, 0.0f);
}

/// Rows of dK that a task keeps at a time: one span if no other query head adds to it, else all.
template <class E>
int64_t rows_of_dkeys(int64_t length, const AttentionShape& shape) {
  constexpr int64_t kSpan = BackwardTile<E>::kSpan;
  return shape.group == 1 ? kSpan : (length + kSpan - 1) / kSpan * kSpan;
}

template <class E>
BackwardTile<E> cut_scratch(float* scratch, int64_t length, const AttentionShape& shape) {
  constexpr bool kApart = !std::is_same_v<E, float>;
  const int64_t head_dim = shape.head_dim, dim = padded_head_dim(head_dim), steps = row_steps<E>(head_dim);
  Cutter cut(scratch);
  BackwardTile<E> t;
  t.length_steps = whole_steps<E>(length);
  // Rows a power of two apart would meet in few places of the cache.
  if (Products<E>::kInTiles) t.length_steps += Products<E>::kSteps;
  t.query = cut.take<E>(length * steps);
  t.dout = cut.take<E>(length * steps);
  t.query_steps = kApart ? cut.take<E>(t.length_steps * dim) : t.query;
  t.dout_steps = kApart ? cut.take<E>(t.length_steps * dim) : t.dout;
  t.keys_t = cut.take<E>(t.kSpan * steps);
  t.values_t = cut.take<E>(t.kSpan * steps);
  t.key_steps = cut.take<E>(t.kSpan * dim);
  t.p_t = cut.take<E>(t.kBlock * t.kSpan);
  t.ds_t = cut.take<E>(t.kBlock * t.kSpan);
  t.ds = kApart ? cut.take<E>(t.kBlock * t.kSpan) : t.ds_t;
  t.dquery = cut.take<float>(length * dim);
  t.dkeys = cut.take<float>(rows_of_dkeys<E>(length, shape) * dim);
  t.dvalues = cut.take<float>(rows_of_dkeys<E>(length, shape) * dim);
  t.shift = cut.take<float>(length);
  t.lse = cut.take<float>(length);
  t.scores = cut.take<float>(t.kRows * t.kSpan);
  t.dp = cut.take<float>(t.kRows * t.kSpan);
  t.factors = cut.take<float>(kStep<E> * (t.kSpan + 16));
  t.rows = Products<E>::kInTiles ? cut.take<float>(t.kSpan * dim) : nullptr;
  return t;
}

float* share_of_dquery(const AttentionBackward& call, const AttentionTask& task, int64_t member, int64_t split) {
  const int64_t rows = call.qkv.rows(), dim = padded_head_dim(call.shape.head_dim);
  return call.shares + ((split * call.shape.heads() + head_of(call.shape, task, member)) * rows + task.begin) * dim;
}

template <class T, class E>
void backward_task(const AttentionBackward& call, const AttentionTask& task, const AttentionTask& later,
                   float* scratch) {
  const AttentionShape& shape = call.shape;
  const int64_t head_dim = shape.head_dim, dim = padded_head_dim(head_dim), length = task.length;
  BackwardTile<E> t = cut_scratch<E>(scratch, length, shape);
  Products<E> products;
  const auto k = key_rows<T>(call.qkv, shape, task), v = value_rows<T>(call.qkv, shape, task);
  const auto dk = key_rows<T>(call.dqkv, shape, task), dv = value_rows<T>(call.dqkv, shape, task);
  float *const all_dkeys = t.dkeys, *const all_dvalues = t.dvalues;
  NextTask<T> next(shape, task, later);
  next.add_qkv(call.qkv);
  next.add_heads(call.out);
  next.add_heads(call.dout);
  for (int64_t member = 0; member < shape.group; ++member) {
    if (call.splits > 1) t.dquery = share_of_dquery(call, task, member, task.split);
    load_queries<T>(call, task, member, t);
    const auto dq = qkv_rows<T>(call.dqkv, shape, task, member);
    const DropoutRows dropout(call.dropout, call.shape, task, member);
    for (int64_t j = task.split * t.kSpan; j < length; j += call.splits * t.kSpan) {
      const int64_t keys = std::min(t.kSpan, length - j), tile = shape.group == 1 ? 0 : j * dim;
      t.dkeys = all_dkeys + tile;
      t.dvalues = all_dvalues + tile;
      for (int64_t i = 0; i < keys; i += kKeys) {
        transpose_rows(k.from(j + i), std::min(kKeys, keys - i), head_dim, t.keys_t + key_tile<E>(i, head_dim));
        transpose_rows(v.from(j + i), std::min(kKeys, keys - i), head_dim, t.values_t + key_tile<E>(i, head_dim));
      }
      copy_steps(k.from(j), keys, head_dim, t.key_steps, dim);
      if (member == 0) {
        std::fill_n(t.dkeys, t.kSpan * dim, 0.0f);
        std::fill_n(t.dvalues, t.kSpan * dim, 0.0f);
      }
      const auto ahead = [&](int64_t query) HWY_ATTR {
        if (j < t.kSpan) next.foresee(member, query);
        if (query < j || query >= j + keys) return;
        foresee_write(dq, query, head_dim);
        if (member + 1 < shape.group) return;
        foresee_write(dk, query, head_dim);
        foresee_write(dv, query, head_dim);
      };
      // Every query from j on up to `end` sees a key of this span.
      const int64_t end = shape.window > 0 ? std::min(length, j + keys + shape.window - 1) : length;
      for (int64_t i = shape.causal ? j : 0; i < end; i += t.kBlock)
        gradient_tile<T>(call, products, t, dropout, i, std::min(t.kBlock, end - i), j, keys, ahead);
      if (member + 1 < shape.group) continue;
      store_gradient(t, t.dkeys, dim, keys, head_dim, shape.scale, dk.from(j));
      store_gradient(t, t.dvalues, dim, keys, head_dim, 1.0f, dv.from(j));
    }
    if (call.splits == 1) store_rows(t.dquery, dim, length, head_dim, shape.scale, dq);
  }
}

/// dq = scale * sum of its shares, in their order.
template <class T>
void sum_shares(const AttentionBackward& call, const AttentionTask& task) {
  const int64_t dim = padded_head_dim(call.shape.head_dim);
  for (int64_t member = 0; member < call.shape.group; ++member) {
    float* total = share_of_dquery(call, task, member, 0);
    for (int64_t split = 1; split < call.splits; ++split) {
      const float* more = share_of_dquery(call, task, member, split);
      for (int64_t i = 0; i < task.length * dim; i += kLanes)
        hn::StoreU(hn::Add(hn::LoadU(TagF32(), total + i), hn::LoadU(TagF32(), more + i)), TagF32(), total + i);
    }
    store_rows(total, dim, task.length, call.shape.head_dim, call.shape.scale,
               qkv_rows<T>(call.dqkv, call.shape, task, member));
  }
}

void backward_task_any(const AttentionBackward& call, const AttentionTask& task, const AttentionTask& later,
                       float* scratch) {
  with_operands(call.qkv.dtype(), [&](auto element, auto operand) HWY_ATTR {
    backward_task<decltype(element), decltype(operand)>(call, task, later, scratch);
  });
}
void sum_shares_any(const AttentionBackward& call, const AttentionTask& task) {
  with_element(call.qkv.dtype(), [&](auto element) HWY_ATTR { sum_shares<decltype(element)>(call, task); });
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <omp.h>

namespace trireme {
HWY_EXPORT(backward_task_any);
HWY_EXPORT(sum_shares_any);

int64_t attention_backward_floats(int64_t length, const AttentionShape& shape) {
  constexpr int64_t kStripRows = 32;
  const int64_t key_rows = multiplies_tiles() ? 128 : 64, query_rows = multiplies_tiles() ? 192 : 96;
  const int64_t dim = padded_head_dim(shape.head_dim), steps = (shape.head_dim + 31) / 32 * 32;
  const int64_t more_dkeys = shape.group == 1 ? 0 : length;  // a span of dK and dV each is in the six below
  return (length + 1) * (2 * dim + steps + 2) + 2 * more_dkeys * dim + 32 * dim + 6 * key_rows * steps +
         (2 * query_rows + 2 * kStripRows + 2) * key_rows + 48;
}

void CpuOps::do_attention_backward(Context& context, ConstView dout, ConstView qkv, ConstView out, ConstView lse,
                                   const AttentionShape& shape, const Dropout& dropout, View dqkv) {
  const AttentionTasks tasks(shape, context.threads);
  const int64_t splits = tasks.splits(), dim = padded_head_dim(shape.head_dim);
  const ArenaScope scope(*context.scratch);
  const int64_t floats = attention_backward_floats(tasks.longest(), shape);
  float* scratch = context.scratch->take(DType::f32, {context.threads, floats}).as<float>();
  float* shares =
      splits > 1 ? context.scratch->take(DType::f32, {splits, shape.heads(), qkv.rows(), dim}).as<float>() : nullptr;
  const AttentionBackward call{shape, dropout, dout, qkv, out, lse, dqkv, splits, shares};
#pragma omp parallel num_threads(context.threads)
  {
#pragma omp for schedule(dynamic, 1)
    for (int64_t i = 0; i < tasks.count(); ++i) {
      const AttentionTask later = tasks.at(std::min(i + context.threads, tasks.count() - 1));
      HWY_DYNAMIC_DISPATCH(backward_task_any)(call, tasks.at(i), later, scratch + omp_get_thread_num() * floats);
    }
    if (splits > 1) {
#pragma omp for schedule(dynamic, 1)
      for (int64_t i = 0; i < tasks.count(); i += splits) HWY_DYNAMIC_DISPATCH(sum_shares_any)(call, tasks.at(i));
    }
  }
}

size_t attention_scratch_bytes(int64_t rows, const AttentionShape& shape, int threads) {
  const int64_t dim = padded_head_dim(shape.head_dim), heads = shape.heads();
  const int64_t per_thread = std::max(attention_forward_floats(rows, shape), attention_backward_floats(rows, shape));
  const int64_t splits = AttentionTasks::splits_for(shape.kv_heads, threads);  // of one sequence: the most there can be
  const int64_t shares = splits > 1 ? splits * heads * rows * dim : 0;
  const int64_t cached = heads * rows + threads * attention_cached_floats(shape);  // lse of prompts
  return static_cast<size_t>(threads * per_thread + shares + cached) * sizeof(float) + 4 * 64;
}

}  // namespace trireme
#endif
