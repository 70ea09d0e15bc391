// Attention of generation. Prompts that start a sequence go through attention(); rows that follow read the cache once,
// in chunks of keys with a running maximum, so that a new token costs only the reading of its keys and values. The
// query heads of a group attend to a chunk in turn, while it is in the cache of the CPU.

#include <algorithm>
#include <cmath>

#include "ops/cpu/attention.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/attention_cached.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/cpu/attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

constexpr int64_t kChunk = 256;  // keys whose scores are held at once: 1 KiB

/// scores[j] = query . keys[j], four keys at a time so that their sums do not wait for each other.
template <class T>
HWY_INLINE void score_keys(const float* query, const T* keys, int64_t count, int64_t head_dim, float* scores) {
  int64_t j = 0;
  for (; j + 4 <= count; j += 4) {
    const T* k = keys + j * head_dim;
    VecF32 s0 = hn::Zero(TagF32()), s1 = s0, s2 = s0, s3 = s0;
    for_each_vector(head_dim, [&](int64_t c, auto lanes) HWY_ATTR {
      const VecF32 q = hn::LoadU(TagF32(), query + c);  // zeros after head_dim
      s0 = hn::MulAdd(q, load(k + c, lanes), s0);
      s1 = hn::MulAdd(q, load(k + head_dim + c, lanes), s1);
      s2 = hn::MulAdd(q, load(k + 2 * head_dim + c, lanes), s2);
      s3 = hn::MulAdd(q, load(k + 3 * head_dim + c, lanes), s3);
    });
    scores[j] = sum_lanes(s0);
    scores[j + 1] = sum_lanes(s1);
    scores[j + 2] = sum_lanes(s2);
    scores[j + 3] = sum_lanes(s3);
  }
  for (; j < count; ++j) {
    VecF32 sum = hn::Zero(TagF32());
    for_each_vector(head_dim, [&](int64_t c, auto lanes) HWY_ATTR {
      sum = hn::MulAdd(hn::LoadU(TagF32(), query + c), load(keys + j * head_dim + c, lanes), sum);
    });
    scores[j] = sum_lanes(sum);
  }
}

/// out = shrink * out + sum_j weights[j] values[j].
template <class T>
HWY_INLINE void add_values(const float* weights, const T* values, int64_t count, int64_t head_dim, float shrink,
                           float* out) {
  for_each_vector(head_dim, [&](int64_t c, auto lanes) HWY_ATTR {
    VecF32 even = hn::Mul(hn::LoadU(TagF32(), out + c), hn::Set(TagF32(), shrink)), odd = hn::Zero(TagF32());
    const T* v = values + c;
    int64_t j = 0;
    for (; j + 2 <= count; j += 2) {
      even = hn::MulAdd(hn::Set(TagF32(), weights[j]), load(v + j * head_dim, lanes), even);
      odd = hn::MulAdd(hn::Set(TagF32(), weights[j + 1]), load(v + (j + 1) * head_dim, lanes), odd);
    }
    if (j < count) even = hn::MulAdd(hn::Set(TagF32(), weights[j]), load(v + j * head_dim, lanes), even);
    hn::StoreU(hn::Add(even, odd), TagF32(), out + c);
  });
}

/// One query on its way over the keys, cut from its thread's scratch.
struct CachedQuery {
  float *query, *sums;     ///< [padded head_dim]: scaled; of weights times values
  float *maximum, *total;  ///< of the scores, of the weights
  static int64_t floats(int64_t dim) { return 2 * dim + 2; }
  CachedQuery(float* scratch, int64_t dim)
      : query(scratch), sums(query + dim), maximum(sums + dim), total(maximum + 1) {}
};

/// Adds `count` <= kChunk cached keys.
template <class T>
HWY_INLINE void attend_chunk(const CachedQuery& q, const Scores& score, const T* keys, const T* values, int64_t count,
                             int64_t head_dim) {
  const TagF32 d;
  HWY_ALIGN float scores[kChunk];
  score_keys(q.query, keys, count, head_dim, scores);
  const int64_t whole = whole_vectors(count);
  if (score.capped()) {
    std::fill(scores + count, scores + whole, 0.0f);
    score.apply_cap(scores, whole);
  }
  std::fill(scores + count, scores + whole, -HUGE_VALF);
  VecF32 most = hn::Set(d, *q.maximum);
  for (int64_t j = 0; j < count; j += kLanes) most = hn::Max(most, hn::Load(d, scores + j));
  const float now = max_lanes(most), shrink = hn::GetLane(exp2_f32(hn::Set(d, *q.maximum - now)));
  VecF32 sum = hn::Zero(d);
  for (int64_t j = 0; j < count; j += kLanes) {
    const VecF32 p = exp2_f32(hn::Sub(hn::Load(d, scores + j), hn::Set(d, now)));
    hn::Store(p, d, scores + j);
    sum = hn::Add(sum, p);
  }
  *q.total = *q.total * shrink + sum_lanes(sum);
  *q.maximum = now;
  add_values(scores, values, count, head_dim, shrink, q.sums);
}

/// Attention of a row's query heads, those of the part, to the cached positions that `position` sees.
template <class T>
void attend_cache(const AttentionCached& call, const AttentionTask& task, CachedPart part, int64_t row, const T* keys,
                  const T* values, int64_t position, float* scratch) {
  const AttentionShape& shape = call.shape;
  const int64_t head_dim = shape.head_dim, dim = padded_head_dim(head_dim), each = CachedQuery::floats(dim);
  const Scores score(shape);
  const float scale = score.capped() ? 1.0f : score.factor;
  for (int64_t member = part.begin; member < part.end; ++member) {
    const CachedQuery q(scratch + member * each, dim);
    copy_rows(qkv_rows<T>(call.qkv, shape, task, member).from(row), 1, head_dim, q.query, dim);
    for (int64_t c = 0; c < dim; ++c) q.query[c] *= scale;
    std::fill_n(q.sums, dim, 0.0f);
    *q.maximum = -HUGE_VALF;
    *q.total = 0;
  }
  const int64_t capacity = call.cache.shape()[2];
  for (int64_t j = first_seen(shape, position), count = 0; j <= position; j += count) {
    const int64_t slot = j % capacity;
    count = std::min({kChunk, position + 1 - j, capacity - slot});
    for (int64_t member = part.begin; member < part.end; ++member)
      attend_chunk(CachedQuery(scratch + member * each, dim), score, keys + slot * head_dim, values + slot * head_dim,
                   count, head_dim);
  }
  for (int64_t member = part.begin; member < part.end; ++member) {
    const CachedQuery q(scratch + member * each, dim);
    store_rows(q.sums, dim, 1, head_dim, 1.0f / *q.total, head_rows<T>(call.out, shape, task, member).from(row));
  }
}

template <class T>
void cached_task(const AttentionCached& call, const AttentionTask& task, CachedPart part, float* scratch) {
  const AttentionShape& shape = call.shape;
  const int64_t head_dim = shape.head_dim, capacity = call.cache.shape()[2];
  const int64_t past = call.past.as<int32_t>()[task.sequence];
  T* keys = call.cache.as<T>() + (task.sequence * shape.kv_heads + task.kv_head) * 2 * capacity * head_dim;
  T* values = keys + capacity * head_dim;
  const auto k = key_rows<T>(call.qkv, shape, task), v = value_rows<T>(call.qkv, shape, task);
  // A row takes the place of one that it does not see, but that rows before it may see.
  for (int64_t i = call.append_only ? std::max<int64_t>(0, task.length - capacity) : 0; i < task.length; ++i) {
    const int64_t slot = (past + i) % capacity;
    if (part.appends) {
      std::copy_n(k[i], head_dim, keys + slot * head_dim);
      std::copy_n(v[i], head_dim, values + slot * head_dim);
    }
    if (!call.append_only && part.begin < part.end)
      attend_cache<T>(call, task, part, i, keys, values, past + i, scratch);
  }
}

void cached_task_any(const AttentionCached& call, const AttentionTask& task, CachedPart part, float* scratch) {
  call.qkv.dtype() == DType::bf16 ? cached_task<bf16_t>(call, task, part, scratch)
                                  : cached_task<float>(call, task, part, scratch);
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <omp.h>

namespace trireme {
HWY_EXPORT(cached_task_any);

int64_t attention_cached_floats(const AttentionShape& shape) {
  constexpr int64_t kMaximumAndTotal = 2;
  return shape.group * (2 * padded_head_dim(shape.head_dim) + kMaximumAndTotal);
}

void CpuOps::do_attention_cached(Context& context, ConstView qkv, const AttentionShape& shape, ConstView past,
                                 View cache, View out) {
  const auto cached = past.values<int32_t>();
  const bool all_start = std::all_of(cached.begin(), cached.end(), [](int32_t n) { return n == 0; });
  const AttentionTasks tasks(shape, 1);
  const AttentionCached call{shape, qkv, past, cache, out, all_start};
  const ArenaScope scope(*context.scratch);
  const int64_t floats = attention_cached_floats(shape);
  float* scratch = context.scratch->take(DType::f32, {context.threads, floats}).as<float>();
  // Fewer key heads than threads: each group's query heads are divided. A row may then not replace one that another
  // thread still reads for a row before it, so only single rows are, which are all appended first.
  const int64_t threads_per_task = context.threads / std::max<int64_t>(1, tasks.count());
  const int64_t parts = tasks.longest() > 1 || all_start ? 1 : std::clamp<int64_t>(threads_per_task, 1, shape.group);
  if (parts > 1) {
    for (int64_t i = 0; i < tasks.count(); ++i)
      HWY_DYNAMIC_DISPATCH(cached_task_any)(call, tasks.at(i), {.begin = 0, .end = 0, .appends = true}, scratch);
  }
#pragma omp parallel for num_threads(context.threads) schedule(dynamic, 1)
  for (int64_t i = 0; i < tasks.count() * parts; ++i) {
    const int64_t part = i % parts;
    const CachedPart members{
        .begin = part * shape.group / parts, .end = (part + 1) * shape.group / parts, .appends = parts == 1};
    HWY_DYNAMIC_DISPATCH(cached_task_any)(call, tasks.at(i / parts), members, scratch + omp_get_thread_num() * floats);
  }
  if (all_start)
    do_attention(context, qkv, shape, {}, out, context.scratch->take(DType::f32, {shape.heads(), qkv.rows()}));
}

}  // namespace trireme
#endif
