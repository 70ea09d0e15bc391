// Attention of generation. Prompts that start a sequence go through attention(); rows that follow read the cache once,
// in chunks of keys with a running maximum, so that a new token costs only the reading of its keys and values.

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

/// Attention of one query over `count` cached keys. query (scaled), sums: [padded head_dim].
template <class T>
void attend_cache(const float* query, const T* keys, const T* values, int64_t count, int64_t head_dim, float* sums,
                  Rows<T> out) {
  const TagF32 d;
  HWY_ALIGN float scores[kChunk];
  const int64_t dim = padded_head_dim(head_dim);
  std::fill_n(sums, dim, 0.0f);
  float maximum = -HUGE_VALF, total = 0;
  for (int64_t first = 0; first < count; first += kChunk) {
    const int64_t n = std::min(kChunk, count - first);
    score_keys(query, keys + first * head_dim, n, head_dim, scores);
    for (int64_t j = n; j < whole_vectors(n); ++j) scores[j] = -HUGE_VALF;
    VecF32 most = hn::Set(d, maximum);
    for (int64_t j = 0; j < n; j += kLanes) most = hn::Max(most, hn::Load(d, scores + j));
    const float now = max_lanes(most), shrink = hn::GetLane(exp2_f32(hn::Set(d, maximum - now)));
    VecF32 sum = hn::Zero(d);
    for (int64_t j = 0; j < n; j += kLanes) {
      const VecF32 p = exp2_f32(hn::Sub(hn::Load(d, scores + j), hn::Set(d, now)));
      hn::Store(p, d, scores + j);
      sum = hn::Add(sum, p);
    }
    total = total * shrink + sum_lanes(sum);
    maximum = now;
    add_values(scores, values + first * head_dim, n, head_dim, shrink, sums);
  }
  store_rows(sums, dim, 1, head_dim, 1.0f / total, out);
}

template <class T>
void cached_task(const AttentionCached& call, const AttentionTask& task, float* scratch) {
  const AttentionShape& shape = call.shape;
  const int64_t head_dim = shape.head_dim, dim = padded_head_dim(head_dim), capacity = call.cache.shape()[2];
  const int64_t past = call.past.as<int32_t>()[task.sequence];
  T* keys = call.cache.as<T>() + (task.sequence * 2 * shape.heads + 2 * task.head) * capacity * head_dim;
  T* values = keys + capacity * head_dim;
  const auto q = qkv_rows<T>(call.qkv, shape, task, 0), k = qkv_rows<T>(call.qkv, shape, task, 1);
  const auto v = qkv_rows<T>(call.qkv, shape, task, 2);
  for (int64_t i = 0; i < task.length; ++i) {
    std::copy_n(k[i], head_dim, keys + (past + i) * head_dim);
    std::copy_n(v[i], head_dim, values + (past + i) * head_dim);
  }
  if (call.append_only) return;
  const auto out = head_rows<T>(call.out, shape, task);
  for (int64_t i = 0; i < task.length; ++i) {
    copy_rows(q.from(i), 1, head_dim, scratch, dim);
    for (int64_t c = 0; c < dim; ++c) scratch[c] *= shape.scale * kLog2E;
    attend_cache<T>(scratch, keys, values, past + i + 1, head_dim, scratch + dim, out.from(i));
  }
}

void cached_task_any(const AttentionCached& call, const AttentionTask& task, float* scratch) {
  call.qkv.dtype() == DType::bf16 ? cached_task<bf16_t>(call, task, scratch) : cached_task<float>(call, task, scratch);
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <omp.h>

namespace trireme {
HWY_EXPORT(cached_task_any);

void CpuOps::do_attention_cached(Context& context, ConstView qkv, const AttentionShape& shape, ConstView past,
                                 View cache, View out) {
  const auto cached = past.values<int32_t>();
  const bool all_start = std::all_of(cached.begin(), cached.end(), [](int32_t n) { return n == 0; });
  const AttentionTasks tasks(shape, 1);
  const AttentionCached call{shape, qkv, past, cache, out, all_start};
  const ArenaScope scope(*context.scratch);
  const int64_t floats = 2 * padded_head_dim(shape.head_dim);
  float* scratch = context.scratch->take(DType::f32, {context.threads, floats}).as<float>();
#pragma omp parallel for num_threads(context.threads) schedule(dynamic, 1)
  for (int64_t i = 0; i < tasks.count(); ++i)
    HWY_DYNAMIC_DISPATCH(cached_task_any)(call, tasks.at(i), scratch + omp_get_thread_num() * floats);
  if (all_start)
    do_attention(context, qkv, shape, {}, out, context.scratch->take(DType::f32, {shape.heads, qkv.rows()}));
}

}  // namespace trireme
#endif
