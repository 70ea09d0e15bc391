// Attention of any type and head size: a warp per query (or key) and head, a lane per key (or query) of 32. Head sizes
// and types that tensor cores take go to attention_forward.cu and attention_backward.cu.

#include "cuda/attention.h"

#include <algorithm>

#include "cuda/cuda_ops.h"
#include "cuda/scratch.h"

namespace trireme {
namespace {

using namespace gpu;

constexpr int kMaxHeadDim = 256, kPerLane = kMaxHeadDim / kWarp, kBlockWarps = 4;

template <class T>
TRIREME_DEVICE float dot(Global<const T> a, int64_t at, Global<const T> b, int64_t bt, int n) {
  float sum = 0;
  for (int c = 0; c < n; ++c) sum += widen(a[at + c]) * widen(b[bt + c]);
  return sum;
}

/// sums[k] += weight * x[at + lane + 32 k].
template <class T>
TRIREME_DEVICE void add_row(float (&sums)[kPerLane], float weight, Global<const T> x, int64_t at, int head_dim) {
  TRIREME_UNROLL
  for (int k = 0; k < kPerLane; ++k) {
    const int c = thread() % kWarp + k * kWarp;
    if (c < head_dim) sums[k] += weight * widen(x[at + c]);
  }
}

template <class T>
TRIREME_DEVICE void store_row(const float (&sums)[kPerLane], float factor, Global<T> y, int64_t at, int head_dim) {
  TRIREME_UNROLL
  for (int k = 0; k < kPerLane; ++k) {
    const int c = thread() % kWarp + k * kWarp;
    if (c < head_dim) y[at + c] = narrow<T>(sums[k] * factor);
  }
}

TRIREME_DEVICE int own_row() { return block_x() * kBlockWarps + thread() / kWarp; }

template <class T>
TRIREME_DEVICE uint32_t position_of(const AttentionArguments<T>& a, int row) {
  return a.dropout.threshold > 0 ? static_cast<uint32_t>(a.dropout.position[row]) : 0;
}
template <class T>
TRIREME_DEVICE uint64_t sample_of(const AttentionArguments<T>& a, int row) {
  return a.dropout.threshold > 0 ? static_cast<uint64_t>(a.dropout.sample[row]) : 0;
}

template <class T>
TRIREME_KERNEL attention_rows(AttentionArguments<T> a) {
  const int i = own_row(), head = block_y(), lane = thread() % kWarp;
  if (i >= a.rows) return;
  const SequenceRows sequence = sequence_of(a, i);
  const Seen seen = seen_keys(a, i - sequence.begin, sequence.end - sequence.begin);
  const int end = sequence.begin + seen.end, kv_head = head / a.group();
  const int64_t stride = a.row_stride(), q = i * stride + a.query_at(head);
  float max = -INFINITY, sum = 0, out[kPerLane] = {};
  for (int first = sequence.begin + seen.first; first < end; first += kWarp) {
    const int j = first + lane;
    const float s = j < end
                        ? capped(a, dot(a.qkv, q, a.qkv, j * stride + a.key_at(kv_head), a.head_dim) * a.scale) * kLog2E
                        : -INFINITY;
    const float now = fmaxf(max, warp_max(s)), shrink = exp2_fast(max - now), p = exp2_fast(s - now);
    max = now;
    sum = sum * shrink + p;
    const float kept = j < end ? p * attention_mask(a, position_of(a, j), position_of(a, i), sample_of(a, i), head) : 0;
    TRIREME_UNROLL
    for (int k = 0; k < kPerLane; ++k) out[k] *= shrink;
    for (int l = 0; l < kWarp && first + l < end; ++l)
      add_row(out, shuffle(kept, l), a.qkv, (first + l) * stride + a.value_at(kv_head), a.head_dim);
  }
  sum = warp_sum(sum);
  store_row(out, 1 / sum, a.to, i * a.out_stride() + static_cast<int64_t>(head) * a.head_dim, a.head_dim);
  if (lane == 0) a.lse[head * a.rows + i] = max * kLn2 + logf(sum);
}

/// delta = D.
template <class T>
TRIREME_KERNEL attention_delta(AttentionArguments<T> a) {
  const int i = own_row(), head = block_y(), lane = thread() % kWarp;
  if (i >= a.rows) return;
  const int64_t at = i * a.out_stride() + static_cast<int64_t>(head) * a.head_dim;
  float sum = 0;
  for (int c = lane; c < a.head_dim; c += kWarp) sum += widen(a.dout[at + c]) * widen(a.out[at + c]);
  sum = warp_sum(sum);
  if (lane == 0) a.delta[head * a.rows + i] = sum;
}

struct PairGradient {
  float kept;  ///< M P
  float ds;    ///< scale dS
};

template <class T>
TRIREME_DEVICE PairGradient pair_gradient(const AttentionArguments<T>& a, int i, int j, int head) {
  const int64_t stride = a.row_stride();
  const int kv_head = head / a.group();
  const float s = dot(a.qkv, i * stride + a.query_at(head), a.qkv, j * stride + a.key_at(kv_head), a.head_dim);
  const float score = capped(a, s * a.scale), ratio = a.cap > 0 ? score / a.cap : 0;
  const float p = exp2_fast((score - a.lse[head * a.rows + i]) * kLog2E);
  const float dp = dot(a.dout, i * a.out_stride() + static_cast<int64_t>(head) * a.head_dim, a.qkv,
                       j * stride + a.value_at(kv_head), a.head_dim);
  const float mask = attention_mask(a, position_of(a, j), position_of(a, i), sample_of(a, i), head);
  return {p * mask, p * (dp * mask - a.delta[head * a.rows + i]) * a.scale * (1 - ratio * ratio)};
}

template <class T>
TRIREME_KERNEL attention_query_gradient(AttentionArguments<T> a) {
  const int i = own_row(), head = block_y(), lane = thread() % kWarp;
  if (i >= a.rows) return;
  const SequenceRows sequence = sequence_of(a, i);
  const Seen seen = seen_keys(a, i - sequence.begin, sequence.end - sequence.begin);
  const int end = sequence.begin + seen.end;
  const int64_t stride = a.row_stride();
  float dq[kPerLane] = {};
  for (int first = sequence.begin + seen.first; first < end; first += kWarp) {
    const float ds = first + lane < end ? pair_gradient(a, i, first + lane, head).ds : 0;
    for (int l = 0; l < kWarp && first + l < end; ++l)
      add_row(dq, shuffle(ds, l), a.qkv, (first + l) * stride + a.key_at(head / a.group()), a.head_dim);
  }
  store_row(dq, 1.0f, a.to, i * stride + a.query_at(head), a.head_dim);
}

template <class T>
TRIREME_KERNEL attention_key_gradient(AttentionArguments<T> a) {
  const int j = own_row(), kv_head = block_y(), lane = thread() % kWarp;
  if (j >= a.rows) return;
  const SequenceRows sequence = sequence_of(a, j);
  const int64_t stride = a.row_stride();
  float dk[kPerLane] = {}, dv[kPerLane] = {};
  const int end = a.window < sequence.end - j ? j + a.window : sequence.end;  // of the queries that see it
  for (int head = kv_head * a.group(); head < (kv_head + 1) * a.group(); ++head)
    for (int first = a.causal ? j : sequence.begin; first < end; first += kWarp) {
      const PairGradient pair = first + lane < end ? pair_gradient(a, first + lane, j, head) : PairGradient{0, 0};
      for (int l = 0; l < kWarp && first + l < end; ++l) {
        add_row(dk, shuffle(pair.ds, l), a.qkv, (first + l) * stride + a.query_at(head), a.head_dim);
        add_row(dv, shuffle(pair.kept, l), a.dout,
                (first + l) * a.out_stride() + static_cast<int64_t>(head) * a.head_dim, a.head_dim);
      }
    }
  store_row(dk, 1.0f, a.to, j * stride + a.key_at(kv_head), a.head_dim);
  store_row(dv, 1.0f, a.to, j * stride + a.value_at(kv_head), a.head_dim);
}

// ---- generation

template <class T>
struct CachedArguments {
  AttentionArguments<T> a;
  Global<const int32_t> past;
  Global<T> cache;  ///< [sequences, 2 kv_heads, capacity, head_dim]
  int64_t capacity;
};

template <class T>
TRIREME_DEVICE int sequence_number(const AttentionArguments<T>& a, int row) {
  int low = 0, high = a.sequences;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (a.offsets[middle] <= row) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

/// Where position p of a sequence is in the cache: keys, and values `capacity` rows after them.
template <class T>
TRIREME_DEVICE int64_t cache_at(const CachedArguments<T>& c, int sequence, int kv_head, int p) {
  return ((static_cast<int64_t>(sequence) * 2 * c.a.kv_heads + 2 * kv_head) * c.capacity + p % c.capacity) *
         c.a.head_dim;
}

/// Keys and values of new rows into the cache, after attention has read it: a warp per row and head. Rows whose place
/// a later one takes stay away.
template <class T>
TRIREME_KERNEL append_to_cache(CachedArguments<T> c) {
  const AttentionArguments<T>& a = c.a;
  const int i = own_row(), kv_head = block_y();
  if (i >= a.rows) return;
  const int s = sequence_number(a, i);
  if (a.offsets[s + 1] - i > c.capacity) return;
  const int64_t from = i * a.row_stride() + a.key_at(kv_head);
  const int64_t to = cache_at(c, s, kv_head, c.past[s] + i - a.offsets[s]);
  for (int part = 0; part < 2; ++part)
    for (int k = thread() % kWarp; k < a.head_dim; k += kWarp)
      c.cache[to + part * c.capacity * a.head_dim + k] = a.qkv[from + part * a.head_dim + k];
}

/// A block per new row and head: its warps share the keys that it sees, those of earlier calls from the cache.
template <class T>
TRIREME_KERNEL attend_to_cache(CachedArguments<T> c) {
  const AttentionArguments<T>& a = c.a;
  SharedMemory memory;
  const auto maxima = memory.take<float, kBlockWarps>("maxima");
  const auto sums = memory.take<float, kBlockWarps>("sums");
  const auto outs = memory.take<float, kBlockWarps * kMaxHeadDim>("outs");
  const int i = block_x(), head = block_y(), kv_head = head / a.group(), lane = thread() % kWarp;
  const int warp = thread() / kWarp, s = sequence_number(a, i), past = c.past[s];
  const int position = past + i - a.offsets[s];
  const Seen seen = seen_keys(a, position, position + 1);
  const int64_t stride = a.row_stride(), q = i * stride + a.query_at(head);
  const Global<const T> cache(c.cache.data, a.sequences * 2 * a.kv_heads * c.capacity * a.head_dim);
  const auto new_row = [&](int j) { return (a.offsets[s] + j - past) * stride + a.key_at(kv_head); };
  float max = -INFINITY, sum = 0, out[kPerLane] = {};
  for (int first = seen.first + warp * kWarp; first < seen.end; first += kBlockWarps * kWarp) {
    const int j = first + lane;
    float score = -INFINITY;
    if (j < seen.end)
      score = j < past ? dot(a.qkv, q, cache, cache_at(c, s, kv_head, j), a.head_dim)
                       : dot(a.qkv, q, a.qkv, new_row(j), a.head_dim);
    score = j < seen.end ? capped(a, score * a.scale) * kLog2E : -INFINITY;
    const float now = fmaxf(max, warp_max(score)), shrink = exp2_fast(max - now), p = exp2_fast(score - now);
    max = now;
    sum = sum * shrink + p;
    TRIREME_UNROLL
    for (int k = 0; k < kPerLane; ++k) out[k] *= shrink;
    for (int l = 0; l < kWarp && first + l < seen.end; ++l) {
      const float weight = shuffle(p, l);
      if (first + l < past) {
        add_row(out, weight, cache, cache_at(c, s, kv_head, first + l) + c.capacity * a.head_dim, a.head_dim);
      } else {
        add_row(out, weight, a.qkv, new_row(first + l) + a.head_dim, a.head_dim);
      }
    }
  }
  sum = warp_sum(sum);
  if (lane == 0) {
    maxima[warp] = max;
    sums[warp] = sum;
  }
  TRIREME_UNROLL
  for (int k = 0; k < kPerLane; ++k) outs[warp * kMaxHeadDim + lane + k * kWarp] = out[k];
  sync_block();
  float most = maxima[0], total = 0;
  for (int w = 1; w < kBlockWarps; ++w) most = fmaxf(most, maxima[w]);
  for (int w = 0; w < kBlockWarps; ++w) total += sums[w] * exp2_fast(maxima[w] - most);
  for (int k = thread(); k < a.head_dim; k += threads()) {
    float x = 0;
    for (int w = 0; w < kBlockWarps; ++w) x += outs[w * kMaxHeadDim + k] * exp2_fast(maxima[w] - most);
    a.to[i * a.out_stride() + static_cast<int64_t>(head) * a.head_dim + k] = narrow<T>(x / total);
  }
}

// ---- launches

template <class T>
AttentionArguments<T> arguments_of(ConstView qkv, const AttentionShape& shape, const Dropout& dropout) {
  AttentionArguments<T> a{};
  a.qkv = global<T>(qkv);
  a.offsets = global<int32_t>(shape.offsets);
  a.rows = qkv.rows();
  a.sequences = static_cast<int>(shape.offsets.rows() - 1);
  a.heads = shape.heads();
  a.kv_heads = shape.kv_heads;
  a.head_dim = shape.head_dim;
  a.causal = shape.causal;
  a.window = shape.window > 0 ? static_cast<int>(std::min<int64_t>(shape.window, INT32_MAX)) : INT32_MAX;
  a.scale = shape.scale;
  a.cap = shape.soft_cap;
  a.dropout.first_head = shape.first_head;
  if (dropout.rate > 0) {
    a.dropout.sample = global<int64_t>(dropout.sample);
    a.dropout.position = global<int32_t>(dropout.position);
    a.dropout.key = dropout.key;
    a.dropout.threshold = drop_threshold(dropout.rate);
    a.dropout.scale = 1 / (1 - dropout.rate);
  }
  return a;
}

template <class T>
void run_rows(const char* name, Stream stream, void (*kernel)(AttentionArguments<T>), int heads,
              const AttentionArguments<T>& a) {
  launch(name, stream, {ceil_divide(a.rows, kBlockWarps), heads, 1}, kBlockWarps * kWarp, 0, kernel, a);
}

}  // namespace

size_t attention_scratch_bytes(int64_t rows, const AttentionShape& shape) {
  return scratch_size(DType::f32, rows * shape.heads());
}

void CudaOps::do_attention(Context& context, ConstView qkv, const AttentionShape& shape, const Dropout& dropout,
                           View out, View lse) {
  const ArenaScope scope(*context.scratch);
  if (const auto library = library_call(context, qkv, shape, dropout, false))
    return attention_->forward(gpu_stream(*context.stream), library->call, qkv, out, lse, library->workspace);
  with_element(qkv.dtype(), [&](auto element) {
    using T = decltype(element);
    AttentionArguments<T> a = arguments_of<T>(qkv, shape, dropout);
    a.to = global<T>(out);
    a.lse = global<float>(lse);
    const gpu::Stream stream = gpu_stream(*context.stream);
    if constexpr (!std::is_same_v<T, float>)
      if (takes_tiles(a)) return run_attention_tiles(stream, a);
    run_rows("attention", stream, attention_rows<T>, a.heads, a);
  });
}

void CudaOps::do_attention_backward(Context& context, ConstView dout, ConstView qkv, ConstView out, ConstView lse,
                                    const AttentionShape& shape, const Dropout& dropout, View dqkv) {
  const ArenaScope scope(*context.scratch);
  if (const auto library = library_call(context, qkv, shape, dropout, true))
    return attention_->backward(gpu_stream(*context.stream), library->call, dout, qkv, out, lse, dqkv,
                                library->workspace);
  const View delta = context.scratch->take(DType::f32, {shape.heads(), qkv.rows()});
  with_element(qkv.dtype(), [&](auto element) {
    using T = decltype(element);
    AttentionArguments<T> a = arguments_of<T>(qkv, shape, dropout);
    a.out = global<T>(out);
    a.dout = global<T>(dout);
    a.to = global<T>(dqkv);
    a.lse = {static_cast<float*>(const_cast<void*>(lse.data())), lse.count()};
    a.delta = global<float>(delta);
    const gpu::Stream stream = gpu_stream(*context.stream);
    run_rows("attention_delta", stream, attention_delta<T>, a.heads, a);
    if constexpr (!std::is_same_v<T, float>)
      if (takes_tiles(a)) return run_attention_backward_tiles(stream, a);
    run_rows("attention_query_gradient", stream, attention_query_gradient<T>, a.heads, a);
    run_rows("attention_key_gradient", stream, attention_key_gradient<T>, a.kv_heads, a);
  });
}

void CudaOps::do_attention_cached(Context& context, ConstView qkv, const AttentionShape& shape, ConstView past,
                                  View cache, View out) {
  with_element(qkv.dtype(), [&](auto element) {
    using T = decltype(element);
    CachedArguments<T> c{arguments_of<T>(qkv, shape, {}), global<int32_t>(past), global<T>(cache), cache.shape()[2]};
    c.a.to = global<T>(out);
    const gpu::Stream stream = gpu_stream(*context.stream);
    launch("attention_cached", stream, {c.a.rows, c.a.heads, 1}, kBlockWarps * kWarp,
           2 * SharedMemory::bytes<float, kBlockWarps> + SharedMemory::bytes<float, kBlockWarps * kMaxHeadDim>,
           attend_to_cache<T>, c);
    launch("append_to_cache", stream, {ceil_divide(c.a.rows, kBlockWarps), c.a.kv_heads, 1}, kBlockWarps * kWarp, 0,
           append_to_cache<T>, c);
  });
}

}  // namespace trireme
