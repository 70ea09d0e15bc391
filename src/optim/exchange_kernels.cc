#include "optim/exchange_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/exchange_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace trireme::exchange_kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using F32 = hn::ScalableTag<float>;
using U32 = hn::RebindToUnsigned<F32>;
using U16 = hn::Rebind<uint16_t, F32>;  // as many elements as an f32 vector, half the bytes

int64_t lanes() { return static_cast<int64_t>(hn::Lanes(F32())); }
int64_t whole(int64_t n) { return n - n % lanes(); }

void round(const float* x, bf16_t* y, int64_t n) {
  const F32 f;
  const U32 u;
  const U16 h;
  const auto half = hn::Set(u, 0x7FFF), one = hn::Set(u, 1), infinity = hn::Set(u, 0x7F800000),
             magnitude = hn::Set(u, 0x7FFFFFFF), quiet = hn::Set(u, 0x40);
  auto* out = reinterpret_cast<uint16_t*>(y);
  for (int64_t i = 0; i < whole(n); i += lanes()) {
    const auto bits = hn::BitCast(u, hn::LoadU(f, x + i));
    const auto high = hn::ShiftRight<16>(bits);
    const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, half), hn::And(high, one)));
    const auto nan = hn::Gt(hn::And(bits, magnitude), infinity);
    hn::StoreU(hn::TruncateTo(h, hn::IfThenElse(nan, hn::Or(high, quiet), rounded)), h, out + i);
  }
  for (int64_t i = whole(n); i < n; ++i) y[i] = to_bf16(x[i]);
}

auto widened(const bf16_t* x) {
  return hn::BitCast(F32(),
                     hn::ShiftLeft<16>(hn::PromoteTo(U32(), hn::LoadU(U16(), reinterpret_cast<const uint16_t*>(x)))));
}

void widen(const bf16_t* x, float* y, int64_t n) {
  for (int64_t i = 0; i < whole(n); i += lanes()) hn::StoreU(widened(x + i), F32(), y + i);
  for (int64_t i = whole(n); i < n; ++i) y[i] = to_float(x[i]);
}

void add_bf16(const bf16_t* x, float* y, int64_t n) {
  const F32 f;
  for (int64_t i = 0; i < whole(n); i += lanes()) hn::StoreU(hn::Add(hn::LoadU(f, y + i), widened(x + i)), f, y + i);
  for (int64_t i = whole(n); i < n; ++i) y[i] += to_float(x[i]);
}

void add_f32(const float* x, float* y, int64_t n) {
  const F32 f;
  for (int64_t i = 0; i < whole(n); i += lanes()) {
    hn::StoreU(hn::Add(hn::LoadU(f, y + i), hn::LoadU(f, x + i)), f, y + i);
  }
  for (int64_t i = whole(n); i < n; ++i) y[i] += x[i];
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme::exchange_kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::exchange_kernels {

HWY_EXPORT(round);
HWY_EXPORT(widen);
HWY_EXPORT(add_bf16);
HWY_EXPORT(add_f32);

void round(const float* x, bf16_t* y, int64_t n) { HWY_DYNAMIC_DISPATCH(round)(x, y, n); }
void widen(const bf16_t* x, float* y, int64_t n) { HWY_DYNAMIC_DISPATCH(widen)(x, y, n); }
void add(const bf16_t* x, float* y, int64_t n) { HWY_DYNAMIC_DISPATCH(add_bf16)(x, y, n); }
void add(const float* x, float* y, int64_t n) { HWY_DYNAMIC_DISPATCH(add_f32)(x, y, n); }

}  // namespace trireme::exchange_kernels
#endif
