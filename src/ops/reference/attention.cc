// Legend: i query row, j key row, both absolute; S = scale q k^T; P = softmax(S); M = dropout mask / (1 - rate).
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/rng.h"
#include "ops/reference/reference_ops.h"

namespace trireme {
namespace {

/// M of one pair, by the rule in ops.h.
double mask_scale(const Dropout& dropout, int64_t query, int64_t key, int head) {
  if (dropout.rate == 0) return 1;
  const auto sample = static_cast<uint64_t>(dropout.sample.as<int64_t>()[query]);
  const auto* position = dropout.position.as<int32_t>();
  const auto key_position = static_cast<uint32_t>(position[key]);
  const auto words =
      philox(dropout.key, {key_position / 4, static_cast<uint32_t>(position[query]), static_cast<uint32_t>(sample),
                           (static_cast<uint32_t>(sample >> 32) & 0xFFFF) | static_cast<uint32_t>(head) << 16});
  const double threshold = std::round(static_cast<double>(dropout.rate) * 0x1p32);
  return words[key_position % 4] >= threshold ? 1 / (1 - static_cast<double>(dropout.rate)) : 0;
}

/// q of one query head and the k and v that it reads (or their gradients), addressed by row.
template <class T>
struct HeadOf {
  T *query, *key;
  int64_t row_stride, dim;
  HeadOf(T* qkv, const AttentionShape& s, int head) : dim(s.head_dim) {
    const int64_t group_stride = (int64_t{s.group} + 2) * dim;
    T* group = qkv + head / s.group * group_stride;
    query = group + head % s.group * dim;
    key = group + s.group * dim;
    row_stride = s.kv_heads * group_stride;
  }
  T* q(int64_t row) const { return query + row * row_stride; }
  T* k(int64_t row) const { return key + row * row_stride; }
  T* v(int64_t row) const { return k(row) + dim; }
};

double dot(const double* a, const double* b, int64_t n) {
  double sum = 0;
  for (int64_t c = 0; c < n; ++c) sum += a[c] * b[c];
  return sum;
}

double log_sum_exp(const std::vector<double>& s) {
  const double max = *std::max_element(s.begin(), s.end());
  double sum = 0;
  for (double x : s) sum += std::exp(x - max);
  return max + std::log(sum);
}

/// Calls f(head, sequence, query, first key, end of keys) for every query of every head.
template <class F>
void for_each_query(const AttentionShape& shape, F f) {
  const auto offsets = shape.offsets.values<int32_t>();
  for (int head = 0; head < shape.heads(); ++head)
    for (size_t s = 0; s + 1 < offsets.size(); ++s)
      for (int64_t i = offsets[s]; i < offsets[s + 1]; ++i)
        f(head, static_cast<int64_t>(s), i, int64_t{offsets[s]}, shape.causal ? i + 1 : int64_t{offsets[s + 1]});
}

}  // namespace

void ReferenceOps::do_attention(Context&, ConstView qkv, const AttentionShape& shape, const Dropout& dropout, View out,
                                View lse) {
  const int64_t rows = qkv.rows(), dim = shape.head_dim;
  for_each_query(shape, [&](int head, int64_t, int64_t i, int64_t first, int64_t end) {
    const HeadOf h(qkv.as<double>(), shape, head);
    std::vector<double> scores;
    for (int64_t j = first; j < end; ++j) scores.push_back(shape.scale * dot(h.q(i), h.k(j), dim));
    const double l = log_sum_exp(scores);
    lse.as<double>()[head * rows + i] = l;
    double* o = out.as<double>() + (i * shape.heads() + head) * dim;
    std::fill(o, o + dim, 0.0);
    for (int64_t j = first; j < end; ++j) {
      const double weight =
          std::exp(scores[static_cast<size_t>(j - first)] - l) * mask_scale(dropout, i, j, shape.first_head + head);
      for (int64_t c = 0; c < dim; ++c) o[c] += weight * h.v(j)[c];
    }
  });
}

void ReferenceOps::do_attention_backward(Context&, ConstView dout, ConstView qkv, ConstView, ConstView lse,
                                         const AttentionShape& shape, const Dropout& dropout, View dqkv) {
  const int64_t rows = qkv.rows(), dim = shape.head_dim;
  std::fill_n(dqkv.as<double>(), dqkv.count(), 0.0);
  for_each_query(shape, [&](int head, int64_t, int64_t i, int64_t first, int64_t end) {
    const HeadOf h(qkv.as<double>(), shape, head);
    const HeadOf g(dqkv.as<double>(), shape, head);
    const double* go = dout.as<double>() + (i * shape.heads() + head) * dim;
    const double l = lse.as<double>()[head * rows + i];
    std::vector<double> p, dp;  // P and dP = M (dout . v)
    double mean = 0;            // sum_j P dP
    for (int64_t j = first; j < end; ++j) {
      const double m = mask_scale(dropout, i, j, shape.first_head + head);
      p.push_back(std::exp(shape.scale * dot(h.q(i), h.k(j), dim) - l));
      dp.push_back(m * dot(go, h.v(j), dim));
      mean += p.back() * dp.back();
    }
    for (int64_t j = first; j < end; ++j) {
      const auto at = static_cast<size_t>(j - first);
      const double ds = shape.scale * p[at] * (dp[at] - mean),
                   pm = p[at] * mask_scale(dropout, i, j, shape.first_head + head);
      for (int64_t c = 0; c < dim; ++c) {
        g.q(i)[c] += ds * h.k(j)[c];
        g.k(j)[c] += ds * h.q(i)[c];
        g.v(j)[c] += pm * go[c];
      }
    }
  });
}

void ReferenceOps::do_attention_cached(Context&, ConstView qkv, const AttentionShape& shape, ConstView past, View cache,
                                       View out) {
  const int64_t dim = shape.head_dim, capacity = cache.shape()[2];
  for_each_query(shape, [&](int head, int64_t s, int64_t i, int64_t first, int64_t) {
    const HeadOf h(qkv.as<double>(), shape, head);
    double* keys = cache.as<double>() + (s * shape.kv_heads + head / shape.group) * 2 * capacity * dim;
    double* values = keys + capacity * dim;
    const int64_t at = past.as<int32_t>()[s] + (i - first);  // queries come in order, so earlier keys are cached
    std::copy_n(h.k(i), dim, keys + at * dim);
    std::copy_n(h.v(i), dim, values + at * dim);
    std::vector<double> scores;
    for (int64_t j = 0; j <= at; ++j) scores.push_back(shape.scale * dot(h.q(i), keys + j * dim, dim));
    const double l = log_sum_exp(scores);
    double* o = out.as<double>() + (i * shape.heads() + head) * dim;
    std::fill(o, o + dim, 0.0);
    for (int64_t j = 0; j <= at; ++j)
      for (int64_t c = 0; c < dim; ++c) o[c] += std::exp(scores[static_cast<size_t>(j)] - l) * values[j * dim + c];
  });
}

}  // namespace trireme
