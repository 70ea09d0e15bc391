// Rotary positions: a table of cosines and sines once, then every query and key turned in place.

#include <cmath>

#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/highway_targets.h"
#include "ops/cpu/team.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/rotary.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

/// Pairs (x[i], x[i + half]) turned by the angle whose cosine and sine are given; sign -1 turns back.
template <class T>
HWY_INLINE void turn(T* x, const float* cos, const float* sin, int64_t half, float sign) {
  for_each_vector(half, [&](int64_t i, auto lanes) HWY_ATTR {
    const VecF32 c = load(cos + i, lanes), s = hn::Mul(load(sin + i, lanes), hn::Set(TagF32(), sign));
    const VecF32 a = load(x + i, lanes), b = load(x + half + i, lanes);
    store(hn::NegMulAdd(b, s, hn::Mul(a, c)), x + i, lanes);
    store(hn::MulAdd(a, s, hn::Mul(b, c)), x + half + i, lanes);
  });
}

template <class T>
void turn_rows(View qkv, ConstView positions, ConstView table, float sign, Range rows) {
  const int64_t groups = qkv.shape()[1], parts = qkv.shape()[2], head_dim = qkv.shape()[3];
  const int64_t dims = table.shape()[1], half = dims / 2;
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const float* cos = table.as<float>() + positions.as<int32_t>()[row] * dims;
    T* x = qkv.as<T>() + row * groups * parts * head_dim;
    for (int64_t group = 0; group < groups; ++group, x += head_dim)  // past the value
      for (int64_t part = 0; part < parts - 1; ++part, x += head_dim) turn(x, cos, cos + half, half, sign);
  }
}

void rotary_rows(View qkv, ConstView positions, ConstView table, float sign, Range rows) {
  qkv.dtype() == DType::bf16 ? turn_rows<bf16_t>(qkv, positions, table, sign, rows)
                             : turn_rows<float>(qkv, positions, table, sign, rows);
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {

HWY_EXPORT(rotary_rows);

void CpuOps::do_rotary_table(Context&, std::span<const float> frequencies, double factor, View table) {
  const int64_t dims = table.shape()[1], half = dims / 2;
  for (int64_t i = 0; i < half; ++i) {
    const auto frequency = static_cast<double>(frequencies[static_cast<size_t>(i)]);
    for (int64_t p = 0; p < table.rows(); ++p) {
      const double angle = static_cast<double>(p) * frequency;
      table.as<float>()[p * dims + i] = static_cast<float>(factor * std::cos(angle));
      table.as<float>()[p * dims + half + i] = static_cast<float>(factor * std::sin(angle));
    }
  }
}

void CpuOps::do_rotary(Context& context, View qkv, ConstView positions, ConstView table, bool inverse) {
  for_each_part(context.threads, [&](int part) {
    HWY_DYNAMIC_DISPATCH(rotary_rows)
    (qkv, positions, table, inverse ? -1.0f : 1.0f, share_of(qkv.rows(), part, context.threads));
  });
}

}  // namespace trireme
#endif
