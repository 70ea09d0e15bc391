#include "ops/cpu/exchange_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/exchange_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace trireme::exchange_kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using F32 = hn::ScalableTag<float>;
using U32 = hn::RebindToUnsigned<F32>;
using U16 = hn::Rebind<uint16_t, F32>;  // the same number of elements as an f32 vector, half the bytes

// Inlined by force: position-independent code may be replaced at load time, so the compiler would call these per
// vector.
HWY_INLINE int64_t lanes() { return static_cast<int64_t>(hn::Lanes(F32())); }
HWY_INLINE int64_t whole(int64_t n) { return n - n % lanes(); }

HWY_INLINE auto rounded_bits(hn::Vec<F32> x) {
  const U32 u;
  const auto half = hn::Set(u, 0x7FFF), one = hn::Set(u, 1), infinity = hn::Set(u, 0x7F800000),
             magnitude = hn::Set(u, 0x7FFFFFFF), quiet = hn::Set(u, 0x40);
  const auto bits = hn::BitCast(u, x);
  const auto high = hn::ShiftRight<16>(bits);
  const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, half), hn::And(high, one)));
  const auto nan = hn::Gt(hn::And(bits, magnitude), infinity);
  return hn::IfThenElse(nan, hn::Or(high, quiet), rounded);
}

HWY_INLINE auto widened_bits(hn::Vec<U32> x) { return hn::BitCast(F32(), hn::ShiftLeft<16>(x)); }

HWY_INLINE auto widened(const bf16_t* x) {
  return widened_bits(hn::PromoteTo(U32(), hn::LoadU(U16(), reinterpret_cast<const uint16_t*>(x))));
}

HWY_INLINE void store(hn::Vec<U32> x, bf16_t* y) {
  hn::StoreU(hn::TruncateTo(U16(), x), U16(), reinterpret_cast<uint16_t*>(y));
}

void round(const float* x, bf16_t* y, int64_t n) {
  for (int64_t i = 0; i < whole(n); i += lanes()) store(rounded_bits(hn::LoadU(F32(), x + i)), y + i);
  for (int64_t i = whole(n); i < n; ++i) y[i] = to_bf16(x[i]);
}

void widen(const bf16_t* x, float* y, int64_t n) {
  for (int64_t i = 0; i < whole(n); i += lanes()) hn::StoreU(widened(x + i), F32(), y + i);
  for (int64_t i = whole(n); i < n; ++i) y[i] = to_float(x[i]);
}

void sum_bf16(std::span<const bf16_t* const> x, float* own, bf16_t* sum, int64_t n) {
  for (int64_t i = 0; i < whole(n); i += lanes()) {
    const auto term = [&](const bf16_t* theirs) HWY_ATTR {
      return theirs ? widened(theirs + i) : widened_bits(rounded_bits(hn::LoadU(F32(), own + i)));
    };
    auto total = term(x[0]);
    for (size_t r = 1; r < x.size(); ++r) total = hn::Add(total, term(x[r]));
    const auto bits = rounded_bits(total);
    store(bits, sum + i);
    hn::StoreU(widened_bits(bits), F32(), own + i);
  }
  for (int64_t i = whole(n); i < n; ++i) {
    const auto term = [&](const bf16_t* theirs) { return to_float(theirs ? theirs[i] : to_bf16(own[i])); };
    float total = term(x[0]);
    for (size_t r = 1; r < x.size(); ++r) total += term(x[r]);
    sum[i] = to_bf16(total);
    own[i] = to_float(sum[i]);
  }
}

void sum_f32(std::span<const float* const> x, float* own, float* sum, int64_t n) {
  const F32 f;
  for (int64_t i = 0; i < whole(n); i += lanes()) {
    auto total = hn::LoadU(f, (x[0] ? x[0] : own) + i);
    for (size_t r = 1; r < x.size(); ++r) total = hn::Add(total, hn::LoadU(f, (x[r] ? x[r] : own) + i));
    hn::StoreU(total, f, sum + i);
    hn::StoreU(total, f, own + i);
  }
  for (int64_t i = whole(n); i < n; ++i) {
    float total = (x[0] ? x[0] : own)[i];
    for (size_t r = 1; r < x.size(); ++r) total += (x[r] ? x[r] : own)[i];
    sum[i] = own[i] = total;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme::exchange_kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::exchange_kernels {

HWY_EXPORT(round);
HWY_EXPORT(widen);
HWY_EXPORT(sum_bf16);
HWY_EXPORT(sum_f32);

void round(const float* x, bf16_t* y, int64_t n) { HWY_DYNAMIC_DISPATCH(round)(x, y, n); }
void widen(const bf16_t* x, float* y, int64_t n) { HWY_DYNAMIC_DISPATCH(widen)(x, y, n); }
void sum(std::span<const bf16_t* const> x, float* own, bf16_t* sum, int64_t n) {
  HWY_DYNAMIC_DISPATCH(sum_bf16)(x, own, sum, n);
}
void sum(std::span<const float* const> x, float* own, float* sum, int64_t n) {
  HWY_DYNAMIC_DISPATCH(sum_f32)(x, own, sum, n);
}

}  // namespace trireme::exchange_kernels
#endif
