// Legend: i query row, j key row, both absolute; S = cap(scale q k^T); P = softmax(S); M = dropout mask / (1 - rate).
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

/// S of one pair from q . k, and its derivative by scale q . k.
struct Score {
  double value, slope = 1;
  Score(const AttentionShape& shape, double product) : value(shape.scale * product) {
    if (shape.soft_cap == 0) return;
    const double cap = static_cast<double>(shape.soft_cap), t = std::tanh(value / cap);
    value = cap * t;
    slope = 1 - t * t;
  }
};

double log_sum_exp(const std::vector<double>& s) {
  const double max = *std::max_element(s.begin(), s.end());
  double sum = 0;
  for (double x : s) sum += std::exp(x - max);
  return max + std::log(sum);
}

/// The first position that a query at `position` sees.
int64_t first_seen(const AttentionShape& shape, int64_t position) {
  return shape.window > 0 ? std::max<int64_t>(0, position - shape.window + 1) : 0;
}

/// Calls f(head, query, first key, end of keys) for every query of every head.
template <class F>
void for_each_query(const AttentionShape& shape, F f) {
  const auto offsets = shape.offsets.values<int32_t>();
  for (int head = 0; head < shape.heads(); ++head)
    for (size_t s = 0; s + 1 < offsets.size(); ++s)
      for (int64_t i = offsets[s]; i < offsets[s + 1]; ++i)
        f(head, i, offsets[s] + first_seen(shape, i - offsets[s]), shape.causal ? i + 1 : int64_t{offsets[s + 1]});
}

}  // namespace

void ReferenceOps::do_attention(Context&, ConstView qkv, const AttentionShape& shape, const Dropout& dropout, View out,
                                View lse) {
  const int64_t rows = qkv.rows(), dim = shape.head_dim;
  for_each_query(shape, [&](int head, int64_t i, int64_t first, int64_t end) {
    const HeadOf h(qkv.as<double>(), shape, head);
    std::vector<double> scores;
    for (int64_t j = first; j < end; ++j) scores.push_back(Score(shape, dot(h.q(i), h.k(j), dim)).value);
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
  for_each_query(shape, [&](int head, int64_t i, int64_t first, int64_t end) {
    const HeadOf h(qkv.as<double>(), shape, head);
    const HeadOf g(dqkv.as<double>(), shape, head);
    const double* go = dout.as<double>() + (i * shape.heads() + head) * dim;
    const double l = lse.as<double>()[head * rows + i];
    std::vector<double> p, dp, slope;  // P, dP = M (dout . v) and dS by scale q . k
    double mean = 0;                   // sum_j P dP
    for (int64_t j = first; j < end; ++j) {
      const double m = mask_scale(dropout, i, j, shape.first_head + head);
      const Score score(shape, dot(h.q(i), h.k(j), dim));
      p.push_back(std::exp(score.value - l));
      slope.push_back(score.slope);
      dp.push_back(m * dot(go, h.v(j), dim));
      mean += p.back() * dp.back();
    }
    for (int64_t j = first; j < end; ++j) {
      const auto at = static_cast<size_t>(j - first);
      const double ds = shape.scale * slope[at] * p[at] * (dp[at] - mean),
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
  const auto offsets = shape.offsets.values<int32_t>();
  const auto attend = [&](int head, int64_t row, int64_t position, const double* keys, const double* values) {
    const double* q = HeadOf(qkv.as<double>(), shape, head).q(row);
    std::vector<double> scores;
    const int64_t first = first_seen(shape, position);
    for (int64_t j = first; j <= position; ++j)
      scores.push_back(Score(shape, dot(q, keys + j % capacity * dim, dim)).value);
    const double l = log_sum_exp(scores);
    double* o = out.as<double>() + (row * shape.heads() + head) * dim;
    std::fill(o, o + dim, 0.0);
    for (int64_t j = first; j <= position; ++j)
      for (int64_t c = 0; c < dim; ++c)
        o[c] += std::exp(scores[static_cast<size_t>(j - first)] - l) * values[j % capacity * dim + c];
  };
  for (int64_t s = 0; s + 1 < static_cast<int64_t>(offsets.size()); ++s)
    for (int kv_head = 0; kv_head < shape.kv_heads; ++kv_head) {
      const int first_head = kv_head * shape.group;
      const HeadOf h(qkv.as<double>(), shape, first_head);
      double* keys = cache.as<double>() + (s * shape.kv_heads + kv_head) * 2 * capacity * dim;
      double* values = keys + capacity * dim;
      int64_t position = past.as<int32_t>()[s];
      for (int64_t row = offsets[static_cast<size_t>(s)]; row < offsets[static_cast<size_t>(s) + 1];
           ++row, ++position) {
        std::copy_n(h.k(row), dim, keys + position % capacity * dim);
        std::copy_n(h.v(row), dim, values + position % capacity * dim);
        for (int head = first_head; head < first_head + shape.group; ++head) attend(head, row, position, keys, values);
      }
    }
}

}  // namespace trireme
