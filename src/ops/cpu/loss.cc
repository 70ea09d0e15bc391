// Softmax statistics and the gradient of cross-entropy over long rows of logits.

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/highway_targets.h"
#include "ops/cpu/linear.h"
#include "ops/cpu/team.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/loss.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/cpu/activation-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

template <class T>
HWY_INLINE float max_of(const T* z, int64_t n) {
  VecF32 m0 = hn::Set(TagF32(), kLowest), m1 = m0;
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    const Pair both = load(z + i, PairLanes{});
    m0 = hn::Max(m0, both.even);
    m1 = hn::Max(m1, both.odd);
  }
  for (; i + kLanes <= n; i += kLanes) m0 = hn::Max(m0, load(z + i, AllLanes{}));
  if (i < n) m1 = hn::Max(m1, load(z + i, n - i, kLowest));
  return max_lanes(hn::Max(m0, m1));
}

/// e^(z - max) of logits z <= max of type T.
template <class T>
struct Exponential {
  VecF32 max;

  HWY_INLINE explicit Exponential(float m) : max(hn::Set(TagF32(), m)) {}
  HWY_INLINE VecF32 operator()(VecF32 z) const {
    constexpr float kLog2E = 1.44269504f;
    const VecF32 x = hn::Sub(z, max);  // first, so that nothing is lost of large logits
    return is_bf16<T> ? exp2_for_bf16(hn::Mul(x, hn::Set(TagF32(), kLog2E))) : exp_to_88(x);
  }
  HWY_INLINE Pair operator()(Pair z) const { return {(*this)(z.even), (*this)(z.odd)}; }
};

struct MaxAndSum {
  float max, sum;
};

/// Updates s with n more logits. In chunks that stay in the first-level cache between finding their maximum and adding
/// their exponentials; when the maximum rises, the sum so far is scaled down. Memory is read once. The logits read
/// after these begin at `after`.
template <class T>
MaxAndSum stats_with(MaxAndSum s, const T* z, int64_t n, const T* after) {
  constexpr int64_t kChunk = (8 << 10) / static_cast<int64_t>(sizeof(T));  // with the next one, which is prefetched
  static_assert(kWideBlock % kChunk == 0, "blocks of columns must give the bits of whole rows");
  for (int64_t first = 0; first < n; first += kChunk) {
    const int64_t count = std::min(kChunk, n - first);
    const float chunk_max = max_of(z + first, count);
    if (chunk_max > s.max) {
      s.sum *= std::exp(s.max - chunk_max);
      s.max = chunk_max;
    }
    // Nothing but -infinity so far: -infinity - max would be NaN, and their exponentials are 0.
    const Exponential<T> exponential(s.max == kLowest ? 0 : s.max);
    const T* next = first + count < n ? z + first + count : after;
    s.sum += sum_over_pairs<T>(count, [&](int64_t i, auto lanes) HWY_ATTR {
      hwy::Prefetch(next + i);
      return exponential(load(z + first + i, lanes, kLowest));
    });
  }
  return s;
}

/// Takes the columns into account; the first ones begin the statistics.
template <class T>
void stats(ConstView logits, ConstView targets, int64_t first_class, Range columns, View max, View sum, View target,
           Range rows) {
  const int64_t stride = logits.shape()[1];
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    float &row_max = max.as<float>()[row], &row_sum = sum.as<float>()[row], &row_target = target.as<float>()[row];
    const T* z = logits.as<T>() + row * stride;
    const bool first = columns.begin == 0;
    const T* begin = z + columns.begin;
    const MaxAndSum s = stats_with(first ? MaxAndSum{kLowest, 0} : MaxAndSum{row_max, row_sum}, begin,
                                   columns.end - columns.begin, begin + stride);
    const int64_t t = targets.as<int32_t>()[row] - first_class;
    row_max = s.max;
    row_sum = s.sum;
    if (first) row_target = 0;
    if (t >= columns.begin && t < columns.end) row_target = as_float(z[t]);
  }
}

template <class T>
void gradient(View logits, ConstView targets, int64_t first_class, int64_t classes, ConstView max, ConstView sum,
              float scale, double smoothing, float cap, Range rows) {
  const TagF32 d;
  const int64_t columns = logits.shape()[1];
  // of scale: the share of every class, and the target's
  const double shared = static_cast<double>(scale) * smoothing / static_cast<double>(std::max<int64_t>(classes, 1));
  const auto of_target = static_cast<float>(static_cast<double>(scale) * (1 - smoothing) + shared);
  const VecF32 of_class = hn::Set(d, static_cast<float>(shared));
  const float of_cap = cap > 0 ? 1 / cap : 0;
  const VecF32 one = hn::Set(d, 1.0f), of_cap_v = hn::Set(d, of_cap);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    T* z = logits.as<T>() + row * columns;
    const int32_t target_class = targets.as<int32_t>()[row];
    if (target_class < 0) {
      std::fill_n(z, columns, T{});
      continue;
    }
    const Exponential<T> exponential(max.as<float>()[row]);
    const float row_factor = scale / sum.as<float>()[row];
    const VecF32 factor = hn::Set(d, row_factor);
    const int64_t t = target_class - first_class;
    const bool here = t >= 0 && t < classes;
    const float z_target = here ? as_float(z[t]) : 0.0f;
    if (cap > 0) {
      for_each_pair<T>(classes, [&](int64_t i, auto lanes) HWY_ATTR {
        const auto v = load_streaming(z + i, lanes), capped = multiply(v, of_cap_v);
        const auto g = subtract(multiply(exponential(v), factor), of_class);
        store(multiply(g, subtract(one, multiply(capped, capped))), z + i, lanes);
      });
    } else if (smoothing == 0) {
      for_each_pair<T>(classes, [&](int64_t i, auto lanes) HWY_ATTR {
        store(multiply(exponential(load_streaming(z + i, lanes)), factor), z + i, lanes);
      });
    } else {
      for_each_pair<T>(classes, [&](int64_t i, auto lanes) HWY_ATTR {
        store(subtract(multiply(exponential(load_streaming(z + i, lanes)), factor), of_class), z + i, lanes);
      });
    }
    const float slope = 1 - z_target * of_cap * (z_target * of_cap);
    if (here) z[t] = from_float<T>((std::exp(z_target - max.as<float>()[row]) * row_factor - of_target) * slope);
    std::fill_n(z + classes, columns - classes, T{});
  }
}

void softmax_stats_rows(ConstView logits, ConstView targets, int64_t first_class, Range columns, View max, View sum,
                        View target, Range rows) {
  with_element(logits.dtype(), [&](auto element) HWY_ATTR {
    stats<decltype(element)>(logits, targets, first_class, columns, max, sum, target, rows);
  });
}

void cross_entropy_backward_rows(View logits, ConstView targets, int64_t first_class, int64_t classes, ConstView max,
                                 ConstView sum, float scale, double smoothing, float cap, Range rows) {
  with_element(logits.dtype(), [&](auto element) HWY_ATTR {
    gradient<decltype(element)>(logits, targets, first_class, classes, max, sum, scale, smoothing, cap, rows);
  });
}

template <class T>
void cap_range(T* x, float cap, int64_t n) {
  const VecF32 inverse = hn::Set(TagF32(), 1 / cap), most = hn::Set(TagF32(), cap);
  for_each_pair<T>(n, [&](int64_t i, auto lanes) HWY_ATTR {
    const auto shares = multiply(load_streaming(x + i, lanes), inverse);
    store(multiply(of_each(shares, [](VecF32 v) HWY_ATTR { return Tanh::value<T>(v); }), most), x + i, lanes);
  });
}

void soft_cap_range(View x, float cap, Range range) {
  with_element(x.dtype(), [&](auto element) HWY_ATTR {
    cap_range(x.as<decltype(element)>() + range.begin, cap, range.end - range.begin);
  });
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {

HWY_EXPORT(softmax_stats_rows);
HWY_EXPORT(cross_entropy_backward_rows);
HWY_EXPORT(soft_cap_range);

namespace {

double element_of(ConstView z, int64_t i) {
  return static_cast<double>(z.dtype() == DType::bf16 ? to_float(z.as<bf16_t>()[i]) : z.as<float>()[i]);
}

}  // namespace

void CpuOps::do_softmax_stats(Context& context, ConstView logits, ConstView targets, int64_t first_class,
                              int64_t classes, View max, View sum, View target) {
  add_softmax_stats(context, logits, targets, first_class, {0, classes}, max, sum, target);
}

void CpuOps::add_softmax_stats(Context& context, ConstView logits, ConstView targets, int64_t first_class,
                               Range columns, View max, View sum, View target) {
  for_each_part(context.threads, [&](int part) {
    HWY_DYNAMIC_DISPATCH(softmax_stats_rows)
    (logits, targets, first_class, columns, max, sum, target, share_of(logits.rows(), part, context.threads));
  });
}

void CpuOps::do_softmax_combine(Context&, ConstView parts, View max, View sum, View target) {
  const int64_t rows = max.rows();  // a few hundred: not worth a parallel region
  const float* all = parts.as<float>();
  const auto part = [&](int64_t p, int64_t which, int64_t row) { return all[(3 * p + which) * rows + row]; };
  for (int64_t row = 0; row < rows; ++row) {
    float m = part(0, 0, row), s = 0, t = 0;
    for (int64_t p = 1; p < parts.rows(); ++p) m = std::max(m, part(p, 0, row));
    for (int64_t p = 0; p < parts.rows(); ++p) {
      // Nothing but -infinity on one side: the difference would be NaN.
      if (part(p, 1, row) != 0) s += part(p, 1, row) * std::exp(part(p, 0, row) - m);
      t += part(p, 2, row);
    }
    max.as<float>()[row] = m;
    sum.as<float>()[row] = s;
    target.as<float>()[row] = t;
  }
}

void CpuOps::do_smooth_target(Context&, ConstView logits, int64_t classes, double smoothing, View target) {
  const int64_t columns = logits.shape()[1];  // a few classes per sequence: not worth a parallel region
  for (int64_t row = 0; row < logits.rows(); ++row) {
    double sum = 0;
    for (int64_t j = 0; j < classes; ++j) sum += element_of(logits, row * columns + j);
    float& t = target.as<float>()[row];
    t = static_cast<float>((1 - smoothing) * static_cast<double>(t) + smoothing * sum / static_cast<double>(classes));
  }
}

void CpuOps::do_cross_entropy(Context&, ConstView max, ConstView sum, ConstView target, ConstView targets, View total) {
  double loss = 0;  // a few thousand logarithms: not worth a parallel region
  for (int64_t row = 0; row < targets.rows(); ++row) {
    if (targets.as<int32_t>()[row] < 0) continue;
    loss += std::log(static_cast<double>(sum.as<float>()[row])) + static_cast<double>(max.as<float>()[row]) -
            static_cast<double>(target.as<float>()[row]);
  }
  *total.as<double>() += loss;
}

void CpuOps::do_cross_entropy_backward(Context& context, View logits, ConstView targets, int64_t first_class,
                                       int64_t classes, ConstView max, ConstView sum, float scale, double smoothing,
                                       float cap) {
  for_each_part(context.threads, [&](int part) {
    HWY_DYNAMIC_DISPATCH(cross_entropy_backward_rows)
    (logits, targets, first_class, classes, max, sum, scale, smoothing, cap,
     share_of(logits.rows(), part, context.threads));
  });
}

void CpuOps::do_soft_cap(Context& context, View x, float cap) {
  constexpr int64_t kUnit = 64;  // elements: shares begin at cache lines, whatever the type
  for_each_part(context.threads, [&](int part) {
    HWY_DYNAMIC_DISPATCH(soft_cap_range)(x, cap, share_of(x.count(), part, context.threads, kUnit));
  });
}

void CpuOps::do_squared_error(Context&, ConstView z, ConstView targets, View total) {
  double sum = 0;  // one value per sequence
  for (int64_t row = 0; row < z.rows(); ++row) {
    const double difference = element_of(z, row) - static_cast<double>(targets.as<float>()[row]);
    sum += difference * difference;
  }
  *total.as<double>() += sum;
}

void CpuOps::do_squared_error_backward(Context&, View z, ConstView targets, float scale) {
  for (int64_t row = 0; row < z.rows(); ++row) {
    const double difference = element_of(z, row) - static_cast<double>(targets.as<float>()[row]);
    const auto gradient = static_cast<float>(2 * static_cast<double>(scale) * difference);
    if (z.dtype() == DType::bf16) {
      z.as<bf16_t>()[row] = to_bf16(gradient);
    } else {
      z.as<float>()[row] = gradient;
    }
  }
}

}  // namespace trireme
#endif
