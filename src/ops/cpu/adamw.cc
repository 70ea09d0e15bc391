// The AdamW update. Products and sums are written out one by one, never fused, so every instruction set gives the same
// bits.

#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/highway_targets.h"
#include "ops/cpu/team.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/adamw.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

/// Master weights as one f32 array.
struct PlainWeights {
  float* weights;

  template <class Lanes>
  HWY_INLINE VecF32 read(int64_t i, Lanes lanes) const {
    return load(weights + i, lanes);
  }
  template <class Lanes>
  HWY_INLINE void write(VecF32 p, int64_t i, Lanes lanes) const {
    store(p, weights + i, lanes);
  }
};

/// Master weights as bf16 and a signed 16-bit remainder: bits = (bf16 << 16) + remainder.
struct SplitWeights {
  using TagI16 = hn::Rebind<int16_t, TagF32>;
  bf16_t* high;
  int16_t* low;

  HWY_INLINE VecF32 read(int64_t i, AllLanes) const {
    const TagU32 d;
    const VecU32 bits = hn::ShiftLeft<16>(hn::PromoteTo(d, hn::LoadU(TagU16(), &high[i].bits)));
    const VecU32 remainder = hn::BitCast(d, hn::PromoteTo(TagI32(), hn::LoadU(TagI16(), low + i)));
    return hn::BitCast(TagF32(), hn::Add(bits, remainder));
  }
  HWY_INLINE void write(VecF32 p, int64_t i, AllLanes) const {
    const VecU32 bits = hn::BitCast(TagU32(), p);
    const VecU32 rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Set(TagU32(), 0x8000)));
    hn::StoreU(hn::TruncateTo(TagU16(), rounded), TagU16(), &high[i].bits);
    // The low half of bits - (rounded << 16) is the low half of bits.
    hn::StoreU(hn::TruncateTo(TagU16(), bits), TagU16(), reinterpret_cast<uint16_t*>(low + i));
  }
  // The last, incomplete vector of an array goes through arrays of full length.
  HWY_INLINE VecF32 read(int64_t i, int64_t count) const {
    bf16_t high_copy[kLanes] = {};
    int16_t low_copy[kLanes] = {};
    std::memcpy(high_copy, high + i, static_cast<size_t>(count) * sizeof *high);
    std::memcpy(low_copy, low + i, static_cast<size_t>(count) * sizeof *low);
    return SplitWeights{high_copy, low_copy}.read(0, AllLanes{});
  }
  HWY_INLINE void write(VecF32 p, int64_t i, int64_t count) const {
    bf16_t high_copy[kLanes];
    int16_t low_copy[kLanes];
    SplitWeights{high_copy, low_copy}.write(p, 0, AllLanes{});
    std::memcpy(high + i, high_copy, static_cast<size_t>(count) * sizeof *high);
    std::memcpy(low + i, low_copy, static_cast<size_t>(count) * sizeof *low);
  }
};

template <class Weights>
void update(const AdamW& o, const float* grad, float* m, float* v, const Weights& weights, int64_t n) {
  const TagF32 d;
  const VecF32 beta1 = hn::Set(d, o.beta1), beta2 = hn::Set(d, o.beta2);
  const VecF32 rest1 = hn::Set(d, 1.0f - o.beta1), rest2 = hn::Set(d, 1.0f - o.beta2);
  const VecF32 correction1 = hn::Set(d, o.correction1), correction2 = hn::Set(d, o.correction2);
  const VecF32 epsilon = hn::Set(d, o.epsilon), rate = hn::Set(d, o.learning_rate);
  const VecF32 decay = hn::Set(d, o.learning_rate * o.weight_decay), scale = hn::Set(d, o.gradient_scale);
  for_each_vector(n, [&](int64_t i, auto lanes) HWY_ATTR {
    const VecF32 g = hn::Mul(scale, load(grad + i, lanes));
    const VecF32 m1 = hn::Add(hn::Mul(beta1, load(m + i, lanes)), hn::Mul(rest1, g));
    const VecF32 v1 = hn::Add(hn::Mul(beta2, load(v + i, lanes)), hn::Mul(rest2, hn::Mul(g, g)));
    store(m1, m + i, lanes);
    store(v1, v + i, lanes);
    VecF32 p = weights.read(i, lanes);
    p = hn::Sub(p, hn::Mul(decay, p));
    const VecF32 denominator = hn::Add(hn::Sqrt(hn::Div(v1, correction2)), epsilon);
    p = hn::Sub(p, hn::Mul(rate, hn::Div(hn::Div(m1, correction1), denominator)));
    weights.write(p, i, lanes);
  });
}

void adamw_range(const AdamW& options, ConstView grad, View m, View v, View weights, View remainder, Range range) {
  const int64_t at = range.begin, n = range.end - range.begin;
  const float* g = grad.as<float>() + at;
  float *m_at = m.as<float>() + at, *v_at = v.as<float>() + at;
  if (remainder.empty()) return update(options, g, m_at, v_at, PlainWeights{weights.as<float>() + at}, n);
  const SplitWeights split{weights.as<bf16_t>() + at, remainder.as<int16_t>() + at};
  update(options, g, m_at, v_at, split, n);
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {

HWY_EXPORT(adamw_range);

void CpuOps::do_adamw(Context& context, const AdamW& options, ConstView grad, View m, View v, View weights,
                      View remainder) {
  constexpr int64_t kUnit = 64;  // elements: shares begin at cache lines, whatever the type
  for_each_part(context.threads, [&](int part) {
    HWY_DYNAMIC_DISPATCH(adamw_range)
    (options, grad, m, v, weights, remainder, share_of(grad.count(), part, context.threads, kUnit));
  });
}

}  // namespace trireme
#endif
