// Softmax statistics and the gradient of cross-entropy over long rows of logits, and the losses' sums.

#include <algorithm>
#include <cmath>

#include "cuda/cuda_ops.h"
#include "cuda/launch.h"

namespace trireme {
namespace {

using namespace gpu;

constexpr int kStatsThreads = 256, kStatsWarps = kStatsThreads / kWarp;

struct MaxSum {
  float max, sum;
};

/// Joins both parts. A maximum of -infinity has the sum 0.
TRIREME_DEVICE MaxSum join(MaxSum a, MaxSum b) {
  const float max = fmaxf(a.max, b.max), base = max == -INFINITY ? 0 : max;
  return {max, a.sum * expf(a.max - base) + b.sum * expf(b.max - base)};
}

template <class T>
struct StatsArguments {
  Global<const T> logits;
  Global<const int32_t> targets;
  Global<float> max, sum, target;
  int64_t columns, classes, first_class;
  bool fast;
};

/// A block per row, each element read once.
template <class T>
TRIREME_KERNEL stats_of_rows(StatsArguments<T> a) {
  SharedMemory memory;
  const auto maxima = memory.take<float, kStatsWarps>("maxima");
  const auto sums = memory.take<float, kStatsWarps>("sums");
  const int64_t row = block_x(), begin = row * a.columns, end = begin + a.classes;
  MaxSum s{-INFINITY, 0};
  for (int64_t at = begin + thread() * kPack; at < end; at += kStatsThreads * kPack) {
    const Pack z = load_pack(a.logits, at, end, a.fast, -INFINITY);
    float most = s.max;
    TRIREME_UNROLL
    for (int i = 0; i < kPack; ++i) most = fmaxf(most, z.v[i]);
    const float base = most == -INFINITY ? 0 : most;
    float sum = s.sum * expf(s.max - base);
    TRIREME_UNROLL
    for (int i = 0; i < kPack; ++i) sum += expf(z.v[i] - base);
    s = {most, sum};
  }
  TRIREME_UNROLL
  for (int mask = kWarp / 2; mask > 0; mask /= 2) s = join(s, {shuffle_xor(s.max, mask), shuffle_xor(s.sum, mask)});
  if (thread() % kWarp == 0) {
    maxima[thread() / kWarp] = s.max;
    sums[thread() / kWarp] = s.sum;
  }
  sync_block();
  if (thread() > 0) return;
  for (int w = 1; w < kStatsWarps; ++w) s = join(s, {maxima[w], sums[w]});
  const int64_t t = a.targets[row] - a.first_class;
  a.max[row] = s.max;
  a.sum[row] = s.sum;
  a.target[row] = t >= 0 && t < a.classes ? widen(a.logits[begin + t]) : 0;
}

struct CombineArguments {
  Global<const float> parts;
  Global<float> max, sum, target;
  int64_t parts_count, rows;
};

TRIREME_KERNEL combine_stats(CombineArguments a) {
  const int64_t row = static_cast<int64_t>(block_x()) * threads() + thread();
  if (row >= a.rows) return;
  const auto part = [&](int64_t p, int64_t which) { return a.parts[(3 * p + which) * a.rows + row]; };
  float m = part(0, 0), s = 0, t = 0;
  for (int64_t p = 1; p < a.parts_count; ++p) m = fmaxf(m, part(p, 0));
  for (int64_t p = 0; p < a.parts_count; ++p) {
    // Nothing but -infinity on one side: the difference would be NaN.
    if (part(p, 1) != 0) s += part(p, 1) * expf(part(p, 0) - m);
    t += part(p, 2);
  }
  a.max[row] = m;
  a.sum[row] = s;
  a.target[row] = t;
}

template <class T>
struct SmoothArguments {
  Global<const T> logits;
  Global<float> target;
  int64_t rows, columns, classes;
  double smoothing;
};

/// A warp per row.
template <class T>
TRIREME_KERNEL smooth_targets(SmoothArguments<T> a) {
  const int64_t row = static_cast<int64_t>(block_x()) * (threads() / kWarp) + thread() / kWarp;
  if (row >= a.rows) return;
  double sum = 0;
  for (int64_t j = thread() % kWarp; j < a.classes; j += kWarp)
    sum += static_cast<double>(widen(a.logits[row * a.columns + j]));
  sum = warp_sum(sum);
  if (thread() % kWarp == 0)
    a.target[row] = static_cast<float>((1 - a.smoothing) * static_cast<double>(a.target[row]) +
                                       a.smoothing * sum / static_cast<double>(a.classes));
}

constexpr int kTotalThreads = 1024;

/// The sum of what 1,024 threads have, in thread 0: threads of a warp pairwise, then the warps in order.
TRIREME_DEVICE double total_of_block(double x) {
  SharedMemory memory;
  const auto sums = memory.take<double, kTotalThreads / kWarp>("sums");
  x = warp_sum(x);
  if (thread() % kWarp == 0) sums[thread() / kWarp] = x;
  sync_block();
  double total = 0;
  if (thread() == 0)
    for (int w = 0; w < kTotalThreads / kWarp; ++w) total += sums[w];
  return total;
}

struct LossArguments {
  Global<const float> max, sum, target;
  Global<const int32_t> targets;
  Global<double> total;
  int64_t rows;
};

TRIREME_KERNEL loss_of_rows(LossArguments a) {
  double loss = 0;
  for (int64_t row = thread(); row < a.rows; row += kTotalThreads)
    if (a.targets[row] >= 0)
      loss +=
          log(static_cast<double>(a.sum[row])) + static_cast<double>(a.max[row]) - static_cast<double>(a.target[row]);
  loss = total_of_block(loss);
  if (thread() == 0) a.total[0] += loss;
}

template <class T>
struct LossBackwardArguments {
  Global<T> logits;
  Global<const int32_t> targets;
  Global<const float> max, sum;
  int64_t columns, classes, first_class;
  float scale, of_class, of_target, inverse_cap;  ///< inverse_cap: 0: none
  bool fast;
};

constexpr int kLossPacks = 4;  ///< per thread

/// Read and write an element.
template <class T>
TRIREME_KERNEL loss_backward(LossBackwardArguments<T> a) {
  const int64_t row = block_x(), begin = row * a.columns, end = begin + a.columns;
  const int64_t target = a.targets[row], t = target - a.first_class;
  const float max = a.max[row], factor = target >= 0 ? div_rn(a.scale, a.sum[row]) : 0;
  TRIREME_UNROLL
  for (int p = 0; p < kLossPacks; ++p) {
    const int64_t column = ((static_cast<int64_t>(block_y()) * kLossPacks + p) * 256 + thread()) * kPack;
    if (column >= a.columns) return;
    Pack z = load_pack(a.logits, begin + column, end, a.fast);
    TRIREME_UNROLL
    for (int i = 0; i < kPack; ++i) {
      const int64_t j = column + i;
      const float label = j == t ? a.of_target : a.of_class;
      const float ratio = z.v[i] * a.inverse_cap, slope = a.inverse_cap > 0 ? 1 - ratio * ratio : 1;
      z.v[i] = j < a.classes && target >= 0 ? (expf(z.v[i] - max) * factor - label) * slope : 0;
    }
    store_pack(z, a.logits, begin + column, end, a.fast);
  }
}

template <class T>
struct SquaresArguments {
  Global<T> z;
  Global<const float> targets;
  Global<double> total;
  int64_t rows;
  float scale;
};

template <class T>
TRIREME_KERNEL squares_of_rows(SquaresArguments<T> a) {
  double sum = 0;
  for (int64_t row = thread(); row < a.rows; row += kTotalThreads) {
    const double difference = static_cast<double>(widen(a.z[row])) - static_cast<double>(a.targets[row]);
    sum += difference * difference;
  }
  sum = total_of_block(sum);
  if (thread() == 0) a.total[0] += sum;
}

template <class T>
TRIREME_KERNEL squares_backward(SquaresArguments<T> a) {
  const int64_t row = static_cast<int64_t>(block_x()) * threads() + thread();
  if (row >= a.rows) return;
  const double difference = static_cast<double>(widen(a.z[row])) - static_cast<double>(a.targets[row]);
  a.z[row] = narrow<T>(static_cast<float>(2 * static_cast<double>(a.scale) * difference));
}

constexpr int kTotalBytes = SharedMemory::bytes<double, kTotalThreads / kWarp>;

}  // namespace

void CudaOps::do_softmax_stats(Context& context, ConstView logits, ConstView targets, int64_t first_class,
                               int64_t classes, View max, View sum, View target) {
  with_element(logits.dtype(), [&](auto element) {
    using T = decltype(element);
    const int64_t columns = logits.shape()[1];
    const StatsArguments<T> arguments{global<T>(logits),
                                      global<int32_t>(targets),
                                      global<float>(max),
                                      global<float>(sum),
                                      global<float>(target),
                                      columns,
                                      classes,
                                      first_class,
                                      packs(columns, {logits})};
    launch("softmax_stats", gpu_stream(*context.stream), {logits.rows(), 1, 1}, kStatsThreads,
           2 * SharedMemory::bytes<float, kStatsWarps>, stats_of_rows<T>, arguments);
  });
}

void CudaOps::do_softmax_combine(Context& context, ConstView parts, View max, View sum, View target) {
  const CombineArguments arguments{global<float>(parts),  global<float>(max), global<float>(sum),
                                   global<float>(target), parts.rows(),       max.rows()};
  launch("softmax_combine", gpu_stream(*context.stream), {ceil_divide(max.rows(), 128), 1, 1}, 128, 0, combine_stats,
         arguments);
}

void CudaOps::do_smooth_target(Context& context, ConstView logits, int64_t classes, double smoothing, View target) {
  with_element(logits.dtype(), [&](auto element) {
    using T = decltype(element);
    const SmoothArguments<T> arguments{
        global<T>(logits), global<float>(target), logits.rows(), logits.shape()[1], classes, smoothing};
    launch("smooth_target", gpu_stream(*context.stream), {ceil_divide(logits.rows(), 4), 1, 1}, 4 * kWarp, 0,
           smooth_targets<T>, arguments);
  });
}

void CudaOps::do_cross_entropy(Context& context, ConstView max, ConstView sum, ConstView target, ConstView targets,
                               View total) {
  const LossArguments arguments{global<float>(max),       global<float>(sum),    global<float>(target),
                                global<int32_t>(targets), global<double>(total), targets.rows()};
  launch("cross_entropy", gpu_stream(*context.stream), {1, 1, 1}, kTotalThreads, kTotalBytes, loss_of_rows, arguments);
}

void CudaOps::do_cross_entropy_backward(Context& context, View logits, ConstView targets, int64_t first_class,
                                        int64_t classes, ConstView max, ConstView sum, float scale, double smoothing,
                                        float cap) {
  // of scale: the share of every class, and the target's
  const double shared = static_cast<double>(scale) * smoothing / static_cast<double>(std::max<int64_t>(classes, 1));
  with_element(logits.dtype(), [&](auto element) {
    using T = decltype(element);
    const int64_t columns = logits.shape()[1];
    const LossBackwardArguments<T> arguments{global<T>(logits),
                                             global<int32_t>(targets),
                                             global<float>(max),
                                             global<float>(sum),
                                             columns,
                                             classes,
                                             first_class,
                                             scale,
                                             static_cast<float>(shared),
                                             static_cast<float>(static_cast<double>(scale) * (1 - smoothing) + shared),
                                             cap > 0 ? 1 / cap : 0,
                                             packs(columns, {logits})};
    launch("cross_entropy_backward", gpu_stream(*context.stream),
           {logits.rows(), ceil_divide(columns, 256 * kPack * kLossPacks), 1}, 256, 0, loss_backward<T>, arguments);
  });
}

void CudaOps::do_squared_error(Context& context, ConstView z, ConstView targets, View total) {
  with_element(z.dtype(), [&](auto element) {
    using T = decltype(element);
    const SquaresArguments<T> arguments{{static_cast<T*>(const_cast<void*>(z.data())), z.count()},
                                        global<float>(targets),
                                        global<double>(total),
                                        z.rows(),
                                        0};
    launch("squared_error", gpu_stream(*context.stream), {1, 1, 1}, kTotalThreads, kTotalBytes, squares_of_rows<T>,
           arguments);
  });
}

void CudaOps::do_squared_error_backward(Context& context, View z, ConstView targets, float scale) {
  with_element(z.dtype(), [&](auto element) {
    using T = decltype(element);
    const SquaresArguments<T> arguments{global<T>(z), global<float>(targets), {}, z.rows(), scale};
    launch("squared_error_backward", gpu_stream(*context.stream), {ceil_divide(z.rows(), 128), 1, 1}, 128, 0,
           squares_backward<T>, arguments);
  });
}

}  // namespace trireme
