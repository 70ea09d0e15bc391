// Gradient of a bias: the sum of dy over rows.

#include <algorithm>

#include "ops/cpu/column_sums.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/highway_targets.h"
#include "ops/cpu/team.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/bias.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

/// sums = sum over rows of dy. Four rows at a time: the sums are read and written a quarter as often.
template <class T>
void sum_rows(const T* dy, int64_t width, Range rows, float* sums) {
  std::fill_n(sums, width, 0.0f);
  int64_t row = rows.begin;
  for (; row + 4 <= rows.end; row += 4) {
    const T *r0 = dy + row * width, *r1 = r0 + width, *r2 = r1 + width, *r3 = r2 + width;
    for_each_vector(width, [&](int64_t i, auto lanes) HWY_ATTR {
      const VecF32 low = hn::Add(load(r0 + i, lanes), load(r1 + i, lanes));
      const VecF32 high = hn::Add(load(r2 + i, lanes), load(r3 + i, lanes));
      store(hn::Add(load(sums + i, lanes), hn::Add(low, high)), sums + i, lanes);
    });
  }
  for (; row < rows.end; ++row)
    for_each_vector(width, [&](int64_t i, auto lanes) HWY_ATTR {
      store(hn::Add(load(sums + i, lanes), load(dy + row * width + i, lanes)), sums + i, lanes);
    });
}

void bias_backward_rows(ConstView dy, Range rows, float* sums) {
  const int64_t width = dy.shape()[1];
  dy.dtype() == DType::bf16 ? sum_rows(dy.as<bf16_t>(), width, rows, sums)
                            : sum_rows(dy.as<float>(), width, rows, sums);
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {

HWY_EXPORT(bias_backward_rows);

void CpuOps::do_bias_backward(Context& context, ConstView dy, View db, Write write) {
  const ArenaScope scope(*context.scratch);
  const ColumnSums sums(*context.scratch, context.threads, dy.shape()[1]);
  for_each_part(
      context.threads,
      [&](int part) {
        HWY_DYNAMIC_DISPATCH(bias_backward_rows)
        (dy, share_of(dy.rows(), part, context.threads), sums.of(part));
      },
      [&](int part) { sums.finish(part, db, write); });
}

}  // namespace trireme
#endif
