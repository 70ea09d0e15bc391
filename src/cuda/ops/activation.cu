// Activations, forward and backward, alone and as gates. Per element of the result: read 1 or 2, write 1.

#include <cmath>

#include "cuda/column_sums.h"
#include "cuda/cuda_ops.h"
#include "cuda/launch.h"

namespace trireme {
namespace {

using namespace gpu;

constexpr float kTwoRootTwoOverPi = 1.5957691216f, kCubic = 0.044715f;

/// 0.5 (1 + tanh u) = 1 / (1 + e^(-2u)), which keeps its relative accuracy where tanh u is near -1.
struct Normal {
  float phi;      ///< Phi(x)
  float density;  ///< e^(-x^2 / 2)
};

/// Phi(-a) = 0.5 e^(-a^2 / 2) P(t) for a >= 0, t = 1 / (1 + 0.4 a / sqrt 2): the polynomial of ops/cpu/activation.cc,
/// whose relative error is 3.1e-7.
TRIREME_DEVICE Normal normal_of(float x) {
  const float a = fabsf(x), t = reciprocal(a * 0.282842712f + 1), density = expf(-0.5f * (a * a));
  float p = 0.0373838358f;
  p = p * t - 0.121834666f;
  p = p * t + 0.0465339124f;
  p = p * t + 0.1298884f;
  p = p * t + 0.0514787249f;
  p = p * t + 0.205131158f;
  p = p * t + 0.198966056f;
  p = p * t + 0.226841092f;
  p = p * t + 0.225611538f;
  const float tail = 0.5f * density * (p * t);
  return {x < 0 ? tail : 1 - tail, density};
}

template <Activation f>
TRIREME_DEVICE float value_of(float x) {
  if constexpr (f == Activation::gelu_tanh) {
    const float e = expf(-kTwoRootTwoOverPi * x * (1 + kCubic * x * x));
    return x * reciprocal(1 + e);
  } else if constexpr (f == Activation::gelu_erf) {
    return x * normal_of(x).phi;
  } else if constexpr (f == Activation::relu) {
    return x < 0 ? 0 : x;
  } else if constexpr (f == Activation::relu2) {
    return x < 0 ? 0 : x * x;
  } else if constexpr (f == Activation::silu) {
    return x * reciprocal(1 + expf(-x));
  } else {
    const float e = expf(-2 * fabsf(x));
    return x != x ? x : copysignf((1 - e) * reciprocal(1 + e), x);
  }
}

template <Activation f>
TRIREME_DEVICE float slope_of(float x) {
  if constexpr (f == Activation::gelu_tanh) {
    // Beyond 10, the derivative is 0 or 1; here e^(-2u) is still finite.
    const float c = x < -10 ? -10 : x > 10 ? 10 : x, square = c * c;
    const float e = expf(-kTwoRootTwoOverPi * c * (1 + kCubic * square)), s = reciprocal(1 + e);
    return s + c * kTwoRootTwoOverPi * (1 + 3 * kCubic * square) * s * (e * s);  // e s = 1 - s
  } else if constexpr (f == Activation::gelu_erf) {
    const float c = x < -40 ? -40 : x > 40 ? 40 : x;  // beyond, the density is 0
    const Normal n = normal_of(c);
    return n.phi + c * 0.398942280f * n.density;
  } else if constexpr (f == Activation::relu) {
    return x > 0 ? 1 : 0;
  } else if constexpr (f == Activation::relu2) {
    return x < 0 ? 0 : 2 * x;
  } else if constexpr (f == Activation::silu) {
    const float c = x < -87 ? -87 : x > 87 ? 87 : x;  // beyond, it is 0 or 1
    const float e = expf(-c), s = reciprocal(1 + e);
    return s + c * s * (e * s);
  } else {
    const float e = expf(-2 * fabsf(x)), s = reciprocal(1 + e);
    return 4 * e * s * s;
  }
}

template <class T>
struct ActivationArguments {
  Global<const T> x, dy;
  Global<T> y;
  int64_t count;
  bool fast;
};

template <class T, Activation f>
TRIREME_KERNEL activation_forward(ActivationArguments<T> a) {
  const int64_t first = flat_pack();
  if (first >= a.count) return;
  Pack x = load_pack(a.x, first, a.count, a.fast);
  TRIREME_UNROLL
  for (int i = 0; i < kPack; ++i) x.v[i] = value_of<f>(x.v[i]);
  store_pack(x, a.y, first, a.count, a.fast);
}

template <class T, Activation f>
TRIREME_KERNEL activation_slope(ActivationArguments<T> a) {
  const int64_t first = flat_pack();
  if (first >= a.count) return;
  const Pack x = load_pack(a.x, first, a.count, a.fast);
  Pack dy = load_pack(a.dy, first, a.count, a.fast);
  TRIREME_UNROLL
  for (int i = 0; i < kPack; ++i) dy.v[i] *= slope_of<f>(x.v[i]);
  store_pack(dy, a.y, first, a.count, a.fast);
}

template <class T>
struct BiasSlopeArguments {
  Global<const T> x, dy;
  Global<T> dx;
  Global<float> partials;  ///< [chunks, width]
  int64_t rows, width, chunk_rows;
  bool fast;
};

/// Also sums the rows of what it writes, in the order of bias_backward().
template <class T, Activation f>
TRIREME_KERNEL slope_partials(BiasSlopeArguments<T> a) {
  struct Loaded {
    Raw<T> x, dy;
  };
  sum_chunk<1, 2>(
      a.rows, a.width, a.chunk_rows,
      [&](int64_t row, int64_t channel) {
        const int64_t at = row * a.width + channel, end = (row + 1) * a.width;
        return Loaded{load_raw(a.x, at, end, a.fast), load_raw(a.dy, at, end, a.fast)};
      },
      [&](int64_t row, int64_t channel, const Loaded& loaded, Pack(&sums)[1]) {
        const Pack x = unpack(loaded.x);
        Pack dx = unpack(loaded.dy);
        TRIREME_UNROLL
        for (int i = 0; i < kPack; ++i) dx.v[i] = mul_rn(dx.v[i], slope_of<f>(x.v[i]));  // not fused with the sum
        const Raw<T> rounded = to_raw<T>(dx);
        store_raw(rounded, a.dx, row * a.width + channel, (row + 1) * a.width, a.fast);
        dx = unpack(rounded);
        TRIREME_UNROLL
        for (int i = 0; i < kPack; ++i) sums[0].v[i] += dx.v[i];
      },
      [&](int, int64_t chunk, int64_t channel, float sum) { a.partials[chunk * a.width + channel] = sum; });
}

template <Activation f>
void run(Context& context, ConstView x, ConstView dy, View y) {
  with_element(x.dtype(), [&](auto element) {
    using T = decltype(element);
    const ActivationArguments<T> arguments{global<T>(x), global<T>(dy), global<T>(y), x.count(),
                                           packs(kPack, {x, dy, y})};
    launch(dy.empty() ? "activation" : "activation_backward", gpu_stream(*context.stream), flat_grid(x.count()), 256, 0,
           dy.empty() ? activation_forward<T, f> : activation_slope<T, f>, arguments);
  });
}

template <class T>
struct GateArguments {
  Global<const T> x, dy;  ///< x: gates and ups in turn
  Global<T> y;            ///< or dx, as x
  int64_t count;          ///< of gates
  bool fast;
};

/// Eight gates and their ups.
template <class T>
struct Gates {
  Pack gate, up;
};
template <class T>
TRIREME_DEVICE Gates<T> load_gates(const GateArguments<T>& a, int64_t first) {
  Gates<T> g;
  const Pack low = load_pack(a.x, 2 * first, 2 * a.count, a.fast);
  const Pack high = load_pack(a.x, 2 * first + kPack, 2 * a.count, a.fast);
  TRIREME_UNROLL
  for (int i = 0; i < kPack; ++i) {
    g.gate.v[i] = i < 4 ? low.v[2 * i % kPack] : high.v[2 * i % kPack];
    g.up.v[i] = i < 4 ? low.v[2 * i % kPack + 1] : high.v[2 * i % kPack + 1];
  }
  return g;
}

template <class T, Activation f>
TRIREME_KERNEL gate_forward(GateArguments<T> a) {
  const int64_t first = flat_pack();
  if (first >= a.count) return;
  Gates<T> g = load_gates(a, first);
  TRIREME_UNROLL
  for (int i = 0; i < kPack; ++i) g.up.v[i] *= value_of<f>(g.gate.v[i]);
  store_pack(g.up, a.y, first, a.count, a.fast);
}

template <class T, Activation f>
TRIREME_KERNEL gate_backward(GateArguments<T> a) {
  const int64_t first = flat_pack();
  if (first >= a.count) return;
  const Gates<T> g = load_gates(a, first);
  const Pack dy = load_pack(a.dy, first, a.count, a.fast);
  Pack low, high;
  TRIREME_UNROLL
  for (int i = 0; i < kPack; ++i) {
    const float gate = dy.v[i] * g.up.v[i] * slope_of<f>(g.gate.v[i]), up = dy.v[i] * value_of<f>(g.gate.v[i]);
    (i < 4 ? low : high).v[2 * i % kPack] = gate;
    (i < 4 ? low : high).v[2 * i % kPack + 1] = up;
  }
  store_pack(low, a.y, 2 * first, 2 * a.count, a.fast);
  store_pack(high, a.y, 2 * first + kPack, 2 * a.count, a.fast);
}

template <Activation f>
void run_gates(Context& context, ConstView x, ConstView dy, View y) {
  with_element(x.dtype(), [&](auto element) {
    using T = decltype(element);
    const GateArguments<T> arguments{global<T>(x), global<T>(dy), global<T>(y), x.count() / 2,
                                     packs(kPack, {x, dy, y})};
    launch(dy.empty() ? "gated_activation" : "gated_activation_backward", gpu_stream(*context.stream),
           flat_grid(arguments.count), 256, 0, dy.empty() ? gate_forward<T, f> : gate_backward<T, f>, arguments);
  });
}

/// call(integral constant of the activation)
template <class Call>
void with_activation(Activation f, Call call) {
  switch (f) {
    case Activation::gelu_tanh:
      return call(std::integral_constant<Activation, Activation::gelu_tanh>());
    case Activation::gelu_erf:
      return call(std::integral_constant<Activation, Activation::gelu_erf>());
    case Activation::relu:
      return call(std::integral_constant<Activation, Activation::relu>());
    case Activation::tanh:
      return call(std::integral_constant<Activation, Activation::tanh>());
    case Activation::silu:
      return call(std::integral_constant<Activation, Activation::silu>());
    case Activation::relu2:
      return call(std::integral_constant<Activation, Activation::relu2>());
  }
}

template <class T>
struct CapArguments {
  Global<T> x;
  int64_t count;
  float cap, inverse;
  bool fast;
};

template <class T>
TRIREME_KERNEL cap_softly(CapArguments<T> a) {
  const int64_t first = flat_pack();
  if (first >= a.count) return;
  Pack x = load_pack(a.x, first, a.count, a.fast);
  TRIREME_UNROLL
  for (int i = 0; i < kPack; ++i) x.v[i] = a.cap * tanhf(x.v[i] * a.inverse);
  store_pack(x, a.x, first, a.count, a.fast);
}

}  // namespace

void CudaOps::do_activation(Context& context, ConstView x, Activation f, View y) {
  with_activation(f, [&](auto which) { run<which()>(context, x, {}, y); });
}

void CudaOps::do_activation_backward(Context& context, ConstView dy, ConstView x, Activation f, View dx) {
  if (dy.count() > 0) with_activation(f, [&](auto which) { run<which()>(context, x, dy, dx); });
}

void CudaOps::do_activation_bias_backward(Context& context, ConstView dy, ConstView x, Activation f, View dx, View db,
                                          Write write) {
  const ArenaScope scope(*context.scratch);
  const int64_t rows = dy.rows(), width = dy.shape()[1];
  const ColumnChunks chunks(rows, width);
  const View partials = context.scratch->take(DType::f32, {chunks.count, width});
  with_activation(f, [&](auto which) {
    with_element(x.dtype(), [&](auto element) {
      using T = decltype(element);
      const BiasSlopeArguments<T> arguments{global<T>(x), global<T>(dy), global<T>(dx), global<float>(partials),
                                            rows,         width,         chunks.rows,   packs(width, {x, dy, dx})};
      launch("activation_bias_backward", gpu_stream(*context.stream), chunks.grid(), ColumnChunks::kThreads,
             ColumnChunks::shared_bytes<1>(), slope_partials<T, which()>, arguments);
    });
  });
  add_partials(context, partials, db, write);
}

void CudaOps::do_gated_activation(Context& context, ConstView x, Activation f, View y) {
  with_activation(f, [&](auto which) { run_gates<which()>(context, x, {}, y); });
}

void CudaOps::do_gated_activation_backward(Context& context, ConstView dy, ConstView x, Activation f, View dx) {
  if (dy.count() > 0) with_activation(f, [&](auto which) { run_gates<which()>(context, x, dy, dx); });
}

void CudaOps::do_soft_cap(Context& context, View x, float cap) {
  with_element(x.dtype(), [&](auto element) {
    using T = decltype(element);
    launch("soft_cap", gpu_stream(*context.stream), flat_grid(x.count()), 256, 0, cap_softly<T>,
           CapArguments<T>{global<T>(x), x.count(), cap, 1 / cap, packs(kPack, {x})});
  });
}

}  // namespace trireme
