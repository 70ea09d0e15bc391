// Gradient of attention: for each tile of keys, blocks of queries are visited and their probabilities P made again from
// the saved log-sum-exp. With M the dropout factors, D = sum_c dO O, and ld = kKeys:
//   dP = dO v^T;  dS = P (M dP - D);  dV += (M P)^T dO;  dQ += dS k;  dK += dS^T q.
// q is held times scale * log2(e), so dK is multiplied by ln(2) at the end and dQ by scale. Source: Dao 2023.

#include <utility>

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

constexpr int64_t kBlock = 96;  // queries at once: sums of dK and dV stay in registers over all of them

/// The working memory of one task, cut from its thread's scratch. dim: head_dim padded.
struct BackwardTile {
  float *query, *dout, *dquery;   ///< [length, dim]; query scaled
  float *shift, *lse;             ///< [length]: D; lse * log2(e)
  float *keys_t, *values_t;       ///< [head_dim, kKeys]
  float *keys, *dkeys, *dvalues;  ///< [kKeys, dim]
  float *p, *ds;                  ///< [kBlock, kKeys]: M P, dS
  float* factors;                 ///< [kKeys + 16]: M of one query
};

/// Scores in p and dP in ds become M P and dS, zero behind `valid`.
HWY_INLINE void gradient_row(const BackwardTile& t, const DropoutRows& dropout, float* p, float* ds, int64_t valid,
                             int64_t query, int64_t first_key) {
  const TagF32 d;
  const VecF32 lse = hn::Set(d, t.lse[query]), shift = hn::Set(d, t.shift[query]);
  const int64_t columns = valid > 0 ? whole_vectors(valid) : 0;
  for (int64_t j = std::max<int64_t>(valid, 0); j < columns; ++j) p[j] = -HUGE_VALF;
  if (dropout.on()) dropout.factors(query, first_key, columns, t.factors);
  for (int64_t j = 0; j < columns; j += kLanes) {
    const VecF32 probability = exp2_f32(hn::Sub(hn::LoadU(d, p + j), lse));
    VecF32 dp = hn::LoadU(d, ds + j), dropped = probability;
    if (dropout.on()) {
      const VecF32 factor = hn::LoadU(d, t.factors + j);
      dp = hn::Mul(dp, factor);
      dropped = hn::Mul(probability, factor);
    }
    hn::StoreU(dropped, d, p + j);
    hn::StoreU(hn::Mul(probability, hn::Sub(dp, shift)), d, ds + j);
  }
  for (int64_t j = columns; j < kKeys; j += kLanes) {
    hn::StoreU(hn::Zero(d), d, p + j);
    hn::StoreU(hn::Zero(d), d, ds + j);
  }
}

/// One block of queries against one tile of keys.
HWY_INLINE void gradient_tile(const AttentionBackward& call, const BackwardTile& t, const DropoutRows& dropout,
                              int64_t first_query, int64_t queries, int64_t first_key, int64_t keys) {
  const int64_t head_dim = call.shape.head_dim, dim = padded_head_dim(head_dim);
  const bool causal = call.shape.causal;
  for (int64_t r = 0; r < queries; r += kTileRows) {
    const int64_t rows = std::min<int64_t>(kTileRows, queries - r), query = first_query + r;
    const int64_t seen = causal ? std::min(keys, query + rows - first_key) : keys, columns = whole_vectors(seen);
    float *p = t.p + r * kKeys, *ds = t.ds + r * kKeys;
    multiply<Side::rows>(rows, columns, head_dim, t.query + query * dim, dim, t.keys_t, kKeys, p, kKeys, false);
    multiply<Side::rows>(rows, columns, head_dim, t.dout + query * dim, dim, t.values_t, kKeys, ds, kKeys, false);
    for (int64_t i = 0; i < rows; ++i)
      gradient_row(t, dropout, p + i * kKeys, ds + i * kKeys, causal ? std::min(seen, query + i + 1 - first_key) : seen,
                   query + i, first_key);
    multiply<Side::rows>(rows, dim, seen, ds, kKeys, t.keys, dim, t.dquery + query * dim, dim, true);
  }
  for (int64_t j = 0; j < keys; j += kTileRows) {
    const int64_t rows = std::min<int64_t>(kTileRows, keys - j);
    const int64_t skip =
        causal ? std::clamp<int64_t>(first_key + j - first_query, 0, queries) : 0;  // these do not see it
    const int64_t from = first_query + skip, count = queries - skip;
    multiply<Side::transposed>(rows, dim, count, t.p + skip * kKeys + j, kKeys, t.dout + from * dim, dim,
                               t.dvalues + j * dim, dim, true);
    multiply<Side::transposed>(rows, dim, count, t.ds + skip * kKeys + j, kKeys, t.query + from * dim, dim,
                               t.dkeys + j * dim, dim, true);
  }
}

template <class T>
void load_queries(const AttentionBackward& call, const AttentionTask& task, const BackwardTile& t) {
  const int64_t head_dim = call.shape.head_dim, dim = padded_head_dim(head_dim);
  const auto out = head_rows<T>(call.out, call.shape, task);
  copy_rows(qkv_rows<T>(call.qkv, call.shape, task, 0), task.length, head_dim, call.shape.scale * kLog2E, t.query, dim);
  copy_rows(head_rows<T>(call.dout, call.shape, task), task.length, head_dim, 1.0f, t.dout, dim);
  const float* lse = call.lse.as<float>() + task.head * call.qkv.rows() + task.begin;
  for (int64_t i = 0; i < task.length; ++i) {
    t.lse[i] = lse[i] * kLog2E;
    VecF32 sum = hn::Zero(TagF32());
    for_each_vector(head_dim, [&](int64_t c, auto lanes) HWY_ATTR {
      sum = hn::MulAdd(load(out[i] + c, lanes), load(t.dout + i * dim + c, lanes), sum);
    });
    t.shift[i] = sum_lanes(sum);
  }
  std::fill_n(t.dquery, task.length * dim, 0.0f);
}

BackwardTile cut_scratch(float* scratch, int64_t length, int64_t dim, float* dquery) {
  BackwardTile t{};
  const auto take = [&scratch](int64_t n) { return std::exchange(scratch, scratch + n); };
  t.query = take(length * dim);
  t.dout = take(length * dim);
  t.dquery = dquery ? dquery : take(length * dim);
  t.keys_t = take(kKeys * dim);
  t.values_t = take(kKeys * dim);
  t.keys = take(kKeys * dim);
  t.dkeys = take(kKeys * dim);
  t.dvalues = take(kKeys * dim);
  t.p = take(kBlock * kKeys);
  t.ds = take(kBlock * kKeys);
  t.factors = take(kKeys + 16);
  t.shift = take(length);
  t.lse = take(length);
  return t;
}

float* share_of_dquery(const AttentionBackward& call, const AttentionTask& task, int64_t split) {
  const int64_t rows = call.qkv.rows(), dim = padded_head_dim(call.shape.head_dim);
  return call.shares + ((split * call.shape.heads + task.head) * rows + task.begin) * dim;
}

template <class T>
void backward_task(const AttentionBackward& call, const AttentionTask& task, float* scratch) {
  const AttentionShape& shape = call.shape;
  const int64_t head_dim = shape.head_dim, dim = padded_head_dim(head_dim), length = task.length;
  const BackwardTile t =
      cut_scratch(scratch, length, dim, call.splits > 1 ? share_of_dquery(call, task, task.split) : nullptr);
  load_queries<T>(call, task, t);
  const auto k = qkv_rows<T>(call.qkv, shape, task, 1), v = qkv_rows<T>(call.qkv, shape, task, 2);
  const auto dk = qkv_rows<T>(call.dqkv, shape, task, 1), dv = qkv_rows<T>(call.dqkv, shape, task, 2);
  const DropoutRows dropout(call.dropout, task);
  for (int64_t j = task.split * kKeys; j < length; j += call.splits * kKeys) {
    const int64_t keys = std::min(kKeys, length - j);
    Rows<const T> key_rows{k[j], k.stride}, value_rows{v[j], v.stride};
    transpose_rows(key_rows, keys, head_dim, t.keys_t);
    transpose_rows(value_rows, keys, head_dim, t.values_t);
    copy_rows(key_rows, keys, head_dim, 1.0f, t.keys, dim);
    std::fill_n(t.dkeys, keys * dim, 0.0f);
    std::fill_n(t.dvalues, keys * dim, 0.0f);
    for (int64_t i = shape.causal ? j : 0; i < length; i += kBlock)
      gradient_tile(call, t, dropout, i, std::min(kBlock, length - i), j, keys);
    store_rows(t.dkeys, dim, keys, head_dim, kLn2, dk.from(j));
    store_rows(t.dvalues, dim, keys, head_dim, 1.0f, dv.from(j));
  }
  if (call.splits == 1)
    store_rows(t.dquery, dim, length, head_dim, shape.scale, qkv_rows<T>(call.dqkv, shape, task, 0));
}

/// dq = scale * sum of its shares, in their order.
template <class T>
void sum_shares(const AttentionBackward& call, const AttentionTask& task) {
  const int64_t dim = padded_head_dim(call.shape.head_dim);
  float* total = share_of_dquery(call, task, 0);
  for (int64_t split = 1; split < call.splits; ++split) {
    const float* more = share_of_dquery(call, task, split);
    for (int64_t i = 0; i < task.length * dim; i += kLanes)
      hn::StoreU(hn::Add(hn::LoadU(TagF32(), total + i), hn::LoadU(TagF32(), more + i)), TagF32(), total + i);
  }
  store_rows(total, dim, task.length, call.shape.head_dim, call.shape.scale,
             qkv_rows<T>(call.dqkv, call.shape, task, 0));
}

void backward_task_any(const AttentionBackward& call, const AttentionTask& task, float* scratch) {
  call.qkv.dtype() == DType::bf16 ? backward_task<bf16_t>(call, task, scratch)
                                  : backward_task<float>(call, task, scratch);
}
void sum_shares_any(const AttentionBackward& call, const AttentionTask& task) {
  call.qkv.dtype() == DType::bf16 ? sum_shares<bf16_t>(call, task) : sum_shares<float>(call, task);
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <omp.h>

#include "ops/check.h"

namespace trireme {
HWY_EXPORT(backward_task_any);
HWY_EXPORT(sum_shares_any);

int64_t attention_backward_floats(int64_t length, int64_t head_dim) {
  constexpr int64_t kKeyRows = 64, kQueryRows = 96;
  const int64_t dim = padded_head_dim(head_dim);
  return length * (3 * dim + 2) + 5 * kKeyRows * dim + 2 * kQueryRows * kKeyRows + kKeyRows + 32;
}

void CpuOps::do_attention_backward(Context& context, ConstView dout, ConstView qkv, ConstView out, ConstView lse,
                                   const AttentionShape& shape, const Dropout& dropout, View dqkv) {
  check_offsets("attention_backward", shape.offsets, qkv.rows());
  check_positions("attention_backward", dropout, shape.offsets);
  const AttentionTasks tasks(shape, context.threads);
  const int64_t splits = tasks.splits(), dim = padded_head_dim(shape.head_dim);
  const ArenaScope scope(*context.scratch);
  const int64_t floats = attention_backward_floats(tasks.longest(), shape.head_dim);
  float* scratch = context.scratch->take(DType::f32, {context.threads, floats}).as<float>();
  float* shares =
      splits > 1 ? context.scratch->take(DType::f32, {splits, shape.heads, qkv.rows(), dim}).as<float>() : nullptr;
  const AttentionBackward call{shape, dropout, dout, qkv, out, lse, dqkv, splits, shares};
#pragma omp parallel num_threads(context.threads)
  {
#pragma omp for schedule(dynamic, 1)
    for (int64_t i = 0; i < tasks.count(); ++i)
      HWY_DYNAMIC_DISPATCH(backward_task_any)(call, tasks.at(i), scratch + omp_get_thread_num() * floats);
    if (splits > 1) {
#pragma omp for schedule(dynamic, 1)
      for (int64_t i = 0; i < tasks.count(); i += splits) HWY_DYNAMIC_DISPATCH(sum_shares_any)(call, tasks.at(i));
    }
  }
}

size_t attention_scratch_bytes(int64_t rows, const AttentionShape& shape, int threads) {
  const int64_t dim = padded_head_dim(shape.head_dim), heads = shape.heads;
  const int64_t per_thread =
      std::max(attention_forward_floats(rows, shape.head_dim), attention_backward_floats(rows, shape.head_dim));
  const int64_t splits = AttentionTasks::splits_for(heads, threads);  // of one sequence: the most there can be
  const int64_t shares = splits > 1 ? splits * heads * rows * dim : 0;
  const int64_t cached = heads * rows + threads * 2 * dim;  // attention_cached: lse of prompts, queries and sums
  return static_cast<size_t>(threads * per_thread + shares + cached) * sizeof(float) + 4 * 64;
}

}  // namespace trireme
#endif
