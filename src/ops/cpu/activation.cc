// Activations, forward and backward.

#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/highway_targets.h"
#include "ops/cpu/team.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/activation.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/cpu/activation-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

template <class T, class F>
void forward(ConstView x, View y, Range range) {
  const T* in = x.as<T>() + range.begin;
  T* out = y.as<T>() + range.begin;
  for_each_pair<T>(range.end - range.begin, [&](int64_t i, auto lanes) HWY_ATTR {
    store(of_each(load_streaming(in + i, lanes), [](VecF32 v) HWY_ATTR { return F::template value<T>(v); }), out + i,
          lanes);
  });
}

template <class T, class F>
void backward(ConstView dy, ConstView x, View dx, Range range) {
  const T* in = x.as<T>() + range.begin;
  const T* dout = dy.as<T>() + range.begin;
  T* din = dx.as<T>() + range.begin;
  for_each_pair<T>(range.end - range.begin, [&](int64_t i, auto lanes) HWY_ATTR {
    const auto slope =
        of_each(load_streaming(in + i, lanes), [](VecF32 v) HWY_ATTR { return F::template derivative<T>(v); });
    store(multiply(load_streaming(dout + i, lanes), slope), din + i, lanes);
  });
}

void activate(ConstView x, Activation f, View y, Range range) {
  with_activation(f, [&](auto function) HWY_ATTR {
    with_element(x.dtype(),
                 [&](auto element) HWY_ATTR { forward<decltype(element), decltype(function)>(x, y, range); });
  });
}

void activate_backward(ConstView dy, ConstView x, Activation f, View dx, Range range) {
  with_activation(f, [&](auto function) HWY_ATTR {
    with_element(x.dtype(),
                 [&](auto element) HWY_ATTR { backward<decltype(element), decltype(function)>(dy, x, dx, range); });
  });
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {

HWY_EXPORT(activate);
HWY_EXPORT(activate_backward);

constexpr int64_t kUnit = 64;  // elements: shares begin at cache lines, whatever the type

void CpuOps::do_activation(Context& context, ConstView x, Activation f, View y) {
  for_each_part(context.threads, [&](int part) {
    HWY_DYNAMIC_DISPATCH(activate)(x, f, y, share_of(x.count(), part, context.threads, kUnit));
  });
}

void CpuOps::do_activation_backward(Context& context, ConstView dy, ConstView x, Activation f, View dx) {
  for_each_part(context.threads, [&](int part) {
    HWY_DYNAMIC_DISPATCH(activate_backward)(dy, x, f, dx, share_of(x.count(), part, context.threads, kUnit));
  });
}

}  // namespace trireme
#endif
