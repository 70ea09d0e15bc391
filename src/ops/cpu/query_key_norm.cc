// Queries and keys by the root of their mean square: each head by itself, or a row's queries and keys as a whole.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/cpu/column_sums.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/highway_targets.h"
#include "ops/cpu/team.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/query_key_norm.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/cpu/pairs-inl.h"

#ifndef TRIREME_QUERY_KEY_NORM_ONCE
#define TRIREME_QUERY_KEY_NORM_ONCE
namespace trireme {
namespace {

/// Which values, gains and statistics belong together.
struct HeadVectors {
  int64_t kv_heads, group, head_dim;
  bool whole;

  HeadVectors(ConstView qkv, const QueryKeyNorm& norm)
      : kv_heads(qkv.shape()[1]), group(qkv.shape()[2] - 2), head_dim(qkv.shape()[3]), whole(norm.whole) {}
  int64_t row_width() const { return kv_heads * (group + 2) * head_dim; }
  int64_t statistics() const { return whole ? 2 : kv_heads * (group + 1); }
  /// action(first value in the row, is it a key, its statistic, first of its gains), queries of a group before its key.
  template <class Do>
  void for_each(Do&& action) const {
    for (int64_t head = 0; head < kv_heads; ++head) {
      const int64_t at = head * (group + 2) * head_dim, of_heads = head * (group + 1);
      for (int64_t part = 0; part < group; ++part)
        action(at + part * head_dim, false, whole ? 0 : of_heads + part, whole ? (head * group + part) * head_dim : 0);
      action(at + group * head_dim, true, whole ? 1 : of_heads + group, whole ? head * head_dim : 0);
    }
  }
};

float rstd_of(const QueryKeyNorm& norm, bool key, float square) {
  return 1.0f / std::sqrt(square / static_cast<float>(key ? norm.k_count : norm.q_count) + norm.epsilon);
}

}  // namespace
}  // namespace trireme
#endif

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

/// sums[statistic] = the lanes' sum of of(first value in the row, is it a key, first of its gains). Statistics of heads
/// are reduced four at a time, in one order wherever a head is.
template <class F>
HWY_INLINE void sum_vectors(const HeadVectors& vectors, float* sums, F&& of) {
  const TagF32 d;
  if (vectors.whole) {
    VecF32 q = hn::Zero(d), k = hn::Zero(d);
    vectors.for_each([&](int64_t at, bool key, int64_t, int64_t gain) HWY_ATTR {
      const VecF32 sum = of(at, key, gain);
      if (key)
        k = hn::Add(k, sum);
      else
        q = hn::Add(q, sum);
    });
    sums[0] = sum_lanes(q);
    sums[1] = sum_lanes(k);
    return;
  }
  const int64_t count = vectors.statistics();
  int64_t at = 0, part = 0, done = 0;
  const auto next = [&]() HWY_ATTR {
    if (done == count) return hn::Zero(d);
    const bool key = part == vectors.group;
    const VecF32 sum = of(at, key, int64_t{0});
    at += key ? 2 * vectors.head_dim : vectors.head_dim;
    part = key ? 0 : part + 1;
    ++done;
    return sum;
  };
  for (int64_t first = 0; first < count; first += 4) {
    const VecF32 a = next(), b = next(), c = next(), e = next();
    if (count - first >= 4) {
      sum_lanes_of_four(a, b, c, e, sums + first);
    } else {
      float last[4];
      sum_lanes_of_four(a, b, c, e, last);
      std::copy_n(last, count - first, sums + first);
    }
  }
}

template <class T>
void square_rows(ConstView qkv, const QueryKeyNorm& norm, View squares, Range rows) {
  const HeadVectors vectors(qkv, norm);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const T* x = qkv.as<T>() + row * vectors.row_width();
    sum_vectors(vectors, squares.as<float>() + row * vectors.statistics(), [&](int64_t at, bool, int64_t) HWY_ATTR {
      return vector_sum_over_pairs<T>(vectors.head_dim, [&](int64_t i, auto lanes) HWY_ATTR {
        const auto v = load_streaming(x + at + i, lanes);
        return multiply(v, v);
      });
    });
  }
}

template <class T>
void normalise_rows(ConstView qkv, const QueryKeyNorm& norm, ConstView squares, View y, Range rows) {
  const HeadVectors vectors(qkv, norm);
  const VecF32 offset = hn::Set(TagF32(), norm.offset);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const T* x = qkv.as<T>() + row * vectors.row_width();
    T* out = y.as<T>() + row * vectors.row_width();
    const float* sums = squares.as<float>() + row * vectors.statistics();
    vectors.for_each([&](int64_t at, bool key, int64_t statistic, int64_t gain) HWY_ATTR {
      const VecF32 rstd = hn::Set(TagF32(), rstd_of(norm, key, sums[statistic]));
      const T* gains = (key ? norm.k : norm.q).as<T>() + gain;
      for_each_pair<T>(vectors.head_dim, [&](int64_t i, auto lanes) HWY_ATTR {
        store(multiply(multiply(load_streaming(x + at + i, lanes), rstd), add(load(gains + i, lanes), offset)),
              out + at + i, lanes);
      });
      if (!key) return;
      const int64_t value = at + vectors.head_dim;
      std::memcpy(out + value, x + value, static_cast<size_t>(vectors.head_dim) * sizeof(T));
    });
  }
}

template <class T>
void multiply_rows(ConstView dqkv, ConstView qkv, const QueryKeyNorm& norm, View products, Range rows) {
  const HeadVectors vectors(qkv, norm);
  const VecF32 offset = hn::Set(TagF32(), norm.offset);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const T *x = qkv.as<T>() + row * vectors.row_width(), *dy = dqkv.as<T>() + row * vectors.row_width();
    float* sums = products.as<float>() + row * vectors.statistics();
    sum_vectors(vectors, sums, [&](int64_t at, bool key, int64_t gain) HWY_ATTR {
      const T* gains = (key ? norm.k : norm.q).as<T>() + gain;
      return vector_sum_over_pairs<T>(vectors.head_dim, [&](int64_t i, auto lanes) HWY_ATTR {
        // 2 KiB, as in load_streaming(), are too near for two arrays that are read and not written.
        constexpr int64_t kAhead = 2048;
        hwy::Prefetch(dy + at + i + kAhead);
        hwy::Prefetch(x + at + i + kAhead);
        const auto g = multiply(load(dy + at + i, lanes), add(load(gains + i, lanes), offset));
        return multiply(g, load(x + at + i, lanes));
      });
    });
  }
}

/// One share of the rows: dqkv, and the share's own sums dq, dk.
template <class T>
void normalise_rows_backward(View dqkv, ConstView qkv, const QueryKeyNorm& norm, ConstView squares, ConstView products,
                             float* dq, float* dk, Range rows) {
  const HeadVectors vectors(qkv, norm);
  const int64_t head_dim = vectors.head_dim;
  const VecF32 offset = hn::Set(TagF32(), norm.offset);
  std::fill_n(dq, norm.q.count(), 0.0f);
  std::fill_n(dk, norm.k.count(), 0.0f);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const T* x = qkv.as<T>() + row * vectors.row_width();
    T* d = dqkv.as<T>() + row * vectors.row_width();
    const int64_t statistics = row * vectors.statistics();
    vectors.for_each([&](int64_t at, bool key, int64_t statistic, int64_t gain) HWY_ATTR {
      const float r = rstd_of(norm, key, squares.as<float>()[statistics + statistic]);
      const auto count = static_cast<float>(key ? norm.k_count : norm.q_count);
      // d = d (gain rstd) + x of_x
      const VecF32 rstd = hn::Set(TagF32(), r);
      const VecF32 of_x = hn::Set(TagF32(), -r * r * r * (products.as<float>()[statistics + statistic] / count));
      const T* gains = (key ? norm.k : norm.q).as<T>() + gain;
      float* sums = (key ? dk : dq) + gain;
      for_each_pair<T>(head_dim, [&](int64_t i, auto lanes) HWY_ATTR {
        const auto of_gain = multiply(add(load(gains + i, lanes), offset), rstd), v = load_streaming(x + at + i, lanes);
        const auto dy = load_streaming(d + at + i, lanes);
        store(multiply_add(dy, multiply(v, rstd), load(sums + i, lanes)), sums + i, lanes);
        store(multiply_add(dy, of_gain, multiply(v, of_x)), d + at + i, lanes);
      });
    });
  }
  if constexpr (is_bf16<T>) {
    for (int64_t first = 0; first < norm.q.count(); first += head_dim) order_pairs(dq + first, head_dim);
    for (int64_t first = 0; first < norm.k.count(); first += head_dim) order_pairs(dk + first, head_dim);
  }
}

void query_key_squares_rows(ConstView qkv, const QueryKeyNorm& norm, View squares, Range rows) {
  with_element(qkv.dtype(), [&](auto element) HWY_ATTR { square_rows<decltype(element)>(qkv, norm, squares, rows); });
}

void query_key_norm_rows(ConstView qkv, const QueryKeyNorm& norm, ConstView squares, View y, Range rows) {
  with_element(qkv.dtype(),
               [&](auto element) HWY_ATTR { normalise_rows<decltype(element)>(qkv, norm, squares, y, rows); });
}

void query_key_products_rows(ConstView dqkv, ConstView qkv, const QueryKeyNorm& norm, View products, Range rows) {
  with_element(qkv.dtype(),
               [&](auto element) HWY_ATTR { multiply_rows<decltype(element)>(dqkv, qkv, norm, products, rows); });
}

void query_key_norm_backward_rows(View dqkv, ConstView qkv, const QueryKeyNorm& norm, ConstView squares,
                                  ConstView products, float* dq, float* dk, Range rows) {
  with_element(qkv.dtype(), [&](auto element) HWY_ATTR {
    normalise_rows_backward<decltype(element)>(dqkv, qkv, norm, squares, products, dq, dk, rows);
  });
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {

HWY_EXPORT(query_key_squares_rows);
HWY_EXPORT(query_key_norm_rows);
HWY_EXPORT(query_key_products_rows);
HWY_EXPORT(query_key_norm_backward_rows);

void CpuOps::do_query_key_squares(Context& context, ConstView qkv, const QueryKeyNorm& norm, View squares) {
  for_each_part(context.threads, [&](int part) {
    HWY_DYNAMIC_DISPATCH(query_key_squares_rows)(qkv, norm, squares, share_of(qkv.rows(), part, context.threads));
  });
}

void CpuOps::do_query_key_norm(Context& context, ConstView qkv, const QueryKeyNorm& norm, ConstView squares, View y) {
  for_each_part(context.threads, [&](int part) {
    HWY_DYNAMIC_DISPATCH(query_key_norm_rows)(qkv, norm, squares, y, share_of(qkv.rows(), part, context.threads));
  });
}

void CpuOps::do_query_key_products(Context& context, ConstView dqkv, ConstView qkv, const QueryKeyNorm& norm,
                                   View products) {
  for_each_part(context.threads, [&](int part) {
    HWY_DYNAMIC_DISPATCH(query_key_products_rows)
    (dqkv, qkv, norm, products, share_of(qkv.rows(), part, context.threads));
  });
}

void CpuOps::do_query_key_norm_backward(Context& context, View dqkv, ConstView qkv, const QueryKeyNorm& norm,
                                        ConstView squares, ConstView products, View dq, View dk, Write write) {
  const ArenaScope scope(*context.scratch);
  const ColumnSums dq_sums(*context.scratch, context.threads, norm.q.count());
  const ColumnSums dk_sums(*context.scratch, context.threads, norm.k.count());
  for_each_part(
      context.threads,
      [&](int part) {
        HWY_DYNAMIC_DISPATCH(query_key_norm_backward_rows)
        (dqkv, qkv, norm, squares, products, dq_sums.of(part), dk_sums.of(part),
         share_of(qkv.rows(), part, context.threads));
      },
      [&](int part) {
        if (!dq.empty()) dq_sums.finish(part, dq, write);
        if (!dk.empty()) dk_sums.finish(part, dk, write);
      });
}

}  // namespace trireme
#endif
