// The functions of activations, for kernels that apply them: compiled once per instruction set, as vector-inl.h.

#if defined(TRIREME_ACTIVATION_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_ACTIVATION_INL_H
#undef TRIREME_ACTIVATION_INL_H
#else
#define TRIREME_ACTIVATION_INL_H
#endif

#include "ops/cpu/pairs-inl.h"
#include "tensor/activation.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

/// x -> f(x) and x -> f'(x) for elements of type T: results rounded to bf16 use the shorter functions. The tanh form
/// uses 0.5 (1 + tanh u) = 1 / (1 + e^(-2u)), which keeps its relative accuracy where tanh u is near -1.
struct GeluTanh {
  static constexpr float kTwoRootTwoOverPi = 1.5957691216f;
  static constexpr float kCubic = 0.044715f;
  static constexpr float kLog2E = 1.44269504f;

  /// e^(-2u), u = sqrt(2 / pi) (x + 0.044715 x^3)
  template <class T>
  static HWY_INLINE VecF32 exponential(VecF32 x, VecF32 square) {
    const TagF32 d;
    constexpr float kFactor = is_bf16<T> ? -kTwoRootTwoOverPi * kLog2E : -kTwoRootTwoOverPi;
    const VecF32 scale = hn::MulAdd(square, hn::Set(d, kFactor * kCubic), hn::Set(d, kFactor));
    if constexpr (is_bf16<T>) return exp2_for_bf16_any(hn::Mul(x, scale));
    return exp_f32(hn::Mul(x, scale));
  }
  template <class T>
  static HWY_INLINE VecF32 sigmoid(VecF32 e) {
    const VecF32 one = hn::Set(TagF32(), 1.0f);
    if constexpr (is_bf16<T>) return reciprocal_for_bf16(hn::Add(one, e));
    return hn::Div(one, hn::Add(one, e));
  }
  template <class T>
  static HWY_INLINE VecF32 value(VecF32 x) {
    return hn::Mul(x, sigmoid<T>(exponential<T>(x, hn::Mul(x, x))));
  }
  template <class T>
  static HWY_INLINE VecF32 derivative(VecF32 x) {
    const TagF32 d;
    // Beyond 10, the derivative is 0 or 1; here e^(-2u) is still finite.
    const VecF32 c = is_bf16<T> ? at_most(at_least(x, -10.0f), 10.0f) : clamp(x, -10.0f, 10.0f);
    const VecF32 square = hn::Mul(c, c);
    const VecF32 e = exponential<T>(c, square), s = sigmoid<T>(e);
    const VecF32 slope = hn::MulAdd(square, hn::Set(d, 3 * kTwoRootTwoOverPi * kCubic), hn::Set(d, kTwoRootTwoOverPi));
    return hn::MulAdd(hn::Mul(hn::Mul(c, slope), s), hn::Mul(e, s), s);  // e s = 1 - s, without cancellation
  }
};

/// x Phi(x) with Phi the normal distribution: Phi(-a) = 0.5 erfc(a / sqrt 2) = 0.5 e^(-a^2 / 2) P(t) for a >= 0,
/// t = 1 / (1 + 0.4 a / sqrt 2). P interpolates t -> e^(z^2) erfc(z) at nine Chebyshev nodes: relative error 3.1e-7 in
/// f32; the error of Phi is below 1.3e-7.
struct GeluErf {
  struct Normal {
    VecF32 phi;      ///< Phi(x)
    VecF32 density;  ///< e^(-x^2 / 2)
  };
  template <class T>
  static HWY_INLINE Normal normal(VecF32 x) {
    const TagF32 d;
    const VecF32 one = hn::Set(d, 1.0f);
    // The polynomial multiplies the error of t. Beyond 40 the density is 0.
    const VecF32 a = is_bf16<T> ? at_most(hn::Abs(x), 40.0f) : hn::Abs(x);
    const VecF32 below = hn::MulAdd(a, hn::Set(d, 0.282842712f), one);
    const VecF32 t = is_bf16<T> ? refined_reciprocal(below) : hn::Div(one, below);
    const VecF32 density = is_bf16<T> ? exp2_for_bf16(hn::Mul(hn::Mul(a, a), hn::Set(d, -0.5f * GeluTanh::kLog2E)))
                                      : exp_to_88(hn::Mul(hn::Mul(a, a), hn::Set(d, -0.5f)));
    VecF32 p = hn::Set(d, 0.0373838358f);
    for (float c : {-0.121834666f, 0.0465339124f, 0.1298884f, 0.0514787249f, 0.205131158f, 0.198966056f, 0.226841092f,
                    0.225611538f})
      p = hn::MulAdd(p, t, hn::Set(d, c));
    const VecF32 tail = hn::Mul(hn::Mul(hn::Set(d, 0.5f), density), hn::Mul(p, t));
    return {hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(one, tail)), density};
  }
  template <class T>
  static HWY_INLINE VecF32 value(VecF32 x) {
    return hn::Mul(x, normal<T>(x).phi);
  }
  template <class T>
  static HWY_INLINE VecF32 derivative(VecF32 x) {
    const VecF32 c = clamp(x, -40.0f, 40.0f);  // beyond, the density is 0, and x times it would be NaN at infinity
    const Normal n = normal<T>(c);
    return hn::MulAdd(hn::Mul(c, hn::Set(TagF32(), 0.398942280f)), n.density, n.phi);
  }
};

/// x / (1 + e^-x)
struct Silu {
  template <class T>
  static HWY_INLINE VecF32 exponential(VecF32 x) {
    if constexpr (is_bf16<T>) return exp2_for_bf16_any(hn::Mul(x, hn::Set(TagF32(), -GeluTanh::kLog2E)));
    return exp_f32(hn::Neg(x));
  }
  template <class T>
  static HWY_INLINE VecF32 value(VecF32 x) {
    return hn::Mul(x, GeluTanh::sigmoid<T>(exponential<T>(x)));
  }
  template <class T>
  static HWY_INLINE VecF32 derivative(VecF32 x) {
    // Beyond 87, the derivative is 0 or 1; here e^-x is still finite.
    const VecF32 c = is_bf16<T> ? at_most(at_least(x, -87.0f), 87.0f) : clamp(x, -87.0f, 87.0f);
    const VecF32 e = exponential<T>(c), s = GeluTanh::sigmoid<T>(e);
    return hn::MulAdd(hn::Mul(c, s), hn::Mul(e, s), s);  // e s = 1 - s, without cancellation
  }
};

struct Relu {
  template <class T>
  static HWY_INLINE VecF32 value(VecF32 x) {
    const VecF32 zero = hn::Zero(TagF32());
    return hn::IfThenElse(hn::Lt(x, zero), zero, x);
  }
  template <class T>
  static HWY_INLINE VecF32 derivative(VecF32 x) {
    const TagF32 d;
    return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Set(d, 1.0f), hn::Zero(d));
  }
};

/// relu(x)^2
struct Relu2 {
  template <class T>
  static HWY_INLINE VecF32 value(VecF32 x) {
    const VecF32 positive = Relu::value<T>(x);
    return hn::Mul(positive, positive);
  }
  template <class T>
  static HWY_INLINE VecF32 derivative(VecF32 x) {
    const VecF32 positive = Relu::value<T>(x);
    return hn::Add(positive, positive);
  }
};

/// With e = e^(-2 |x|), which cannot overflow: absolute error below 2e-7.
struct Tanh {
  static HWY_INLINE VecF32 exponential(VecF32 x) { return exp_to_88(hn::Mul(hn::Abs(x), hn::Set(TagF32(), -2.0f))); }
  template <class T>
  static HWY_INLINE VecF32 value(VecF32 x) {
    const VecF32 one = hn::Set(TagF32(), 1.0f), e = exponential(x);
    return hn::CopySignToAbs(hn::Div(hn::Sub(one, e), hn::Add(one, e)), x);
  }
  template <class T>
  static HWY_INLINE VecF32 derivative(VecF32 x) {
    const TagF32 d;
    const VecF32 one = hn::Set(d, 1.0f), e = exponential(x), s = hn::Div(one, hn::Add(one, e));
    return hn::Mul(hn::Mul(hn::Set(d, 4.0f), e), hn::Mul(s, s));
  }
};

/// call(F()), F being the functions of f.
template <class Call>
HWY_INLINE void with_activation(Activation f, Call&& call) {
  switch (f) {
    case Activation::gelu_tanh:
      return call(GeluTanh());
    case Activation::gelu_erf:
      return call(GeluErf());
    case Activation::relu:
      return call(Relu());
    case Activation::tanh:
      return call(Tanh());
    case Activation::silu:
      return call(Silu());
    case Activation::relu2:
      return call(Relu2());
  }
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
