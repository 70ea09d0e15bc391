// f(gate) * up. Each gate lies beside its up: a pair of bf16 is one 32-bit load, whose even half is the gate.

#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/highway_targets.h"
#include "ops/cpu/team.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/gated_activation.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/cpu/activation-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

/// even: gates, odd: ups.
template <class T>
HWY_INLINE Pair load_gates(const T* p) {
  if constexpr (is_bf16<T>) {
    prefetch_ahead(p);
    return load(static_cast<const bf16_t*>(p), PairLanes{});
  } else {
    VecF32 gate, up;
    hwy::Prefetch(p + 512);
    hwy::Prefetch(p + 512 + 64 / sizeof(T));
    hn::LoadInterleaved2(TagF32(), p, gate, up);
    return {gate, up};
  }
}

template <class T>
HWY_INLINE void store_gates(Pair v, T* p) {
  if constexpr (is_bf16<T>) {
    store(v, p, PairLanes{});
  } else {
    hn::StoreInterleaved2(v.even, v.odd, TagF32(), p);
  }
}

/// y = f(gate) * up of n results; the last vector, with fewer of them, is computed on a padded copy.
template <class T, class F>
HWY_INLINE void gate(const T* x, T* y, int64_t n) {
  const auto result = [](Pair v) HWY_ATTR { return hn::Mul(F::template value<T>(v.even), v.odd); };
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(result(load_gates(x + 2 * i)), y + i, AllLanes{});
  if (i == n) return;
  T last[2 * kLanes] = {};
  std::memcpy(last, x + 2 * i, static_cast<size_t>(2 * (n - i)) * sizeof(T));
  store(result(load_gates(static_cast<const T*>(last))), y + i, n - i);
}

template <class T, class F>
HWY_INLINE void gate_backward(const T* dy, const T* x, T* dx, int64_t n) {
  const auto result = [](VecF32 d, Pair v) HWY_ATTR {
    return Pair(hn::Mul(hn::Mul(d, v.odd), F::template derivative<T>(v.even)),
                hn::Mul(d, F::template value<T>(v.even)));
  };
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    store_gates(result(load_streaming(dy + i, AllLanes{}), load_gates(x + 2 * i)), dx + 2 * i);
  if (i == n) return;
  T last[2 * kLanes] = {};
  const size_t bytes = static_cast<size_t>(2 * (n - i)) * sizeof(T);
  std::memcpy(last, x + 2 * i, bytes);
  store_gates(result(load(dy + i, n - i), load_gates(static_cast<const T*>(last))), static_cast<T*>(last));
  std::memcpy(dx + 2 * i, last, bytes);
}

void gated_activate(ConstView x, Activation f, View y, Range range) {
  with_activation(f, [&](auto function) HWY_ATTR {
    with_element(x.dtype(), [&](auto element) HWY_ATTR {
      using T = decltype(element);
      gate<T, decltype(function)>(x.as<T>() + 2 * range.begin, y.as<T>() + range.begin, range.end - range.begin);
    });
  });
}

void gated_activate_backward(ConstView dy, ConstView x, Activation f, View dx, Range range) {
  with_activation(f, [&](auto function) HWY_ATTR {
    with_element(x.dtype(), [&](auto element) HWY_ATTR {
      using T = decltype(element);
      gate_backward<T, decltype(function)>(dy.as<T>() + range.begin, x.as<T>() + 2 * range.begin,
                                           dx.as<T>() + 2 * range.begin, range.end - range.begin);
    });
  });
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {

HWY_EXPORT(gated_activate);
HWY_EXPORT(gated_activate_backward);

namespace {

constexpr int64_t kUnit = 64;  // results: shares begin at cache lines, whatever the type

}  // namespace

void CpuOps::do_gated_activation(Context& context, ConstView x, Activation f, View y) {
  for_each_part(context.threads, [&](int part) {
    HWY_DYNAMIC_DISPATCH(gated_activate)(x, f, y, share_of(y.count(), part, context.threads, kUnit));
  });
}

void CpuOps::do_gated_activation_backward(Context& context, ConstView dy, ConstView x, Activation f, View dx) {
  for_each_part(context.threads, [&](int part) {
    HWY_DYNAMIC_DISPATCH(gated_activate_backward)
    (dy, x, f, dx, share_of(dy.count(), part, context.threads, kUnit));
  });
}

}  // namespace trireme
#endif
