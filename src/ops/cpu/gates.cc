// Gates of attention's outputs, and the norm with a gate of heads with a state.

#include "ops/cpu/column_sums.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/highway_targets.h"
#include "ops/cpu/team.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/gates.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>

#include "ops/cpu/activation-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

HWY_INLINE VecF32 sigmoid_gate_of(VecF32 x) {
  const VecF32 one = hn::Set(TagF32(), 1.0f);
  return hn::Div(one, hn::Add(one, exp_f32(hn::Neg(x))));
}

void gate_range(ConstView x, ConstView gates, View y, Range range) {
  with_element(x.dtype(), [&](auto element) HWY_ATTR {
    using T = decltype(element);
    const T *in = x.as<T>() + range.begin, *gate = gates.as<T>() + range.begin;
    T* out = y.as<T>() + range.begin;
    for_each_vector(range.end - range.begin, [&](int64_t i, auto lanes) HWY_ATTR {
      store(hn::Mul(load_streaming(in + i, lanes), sigmoid_gate_of(load_streaming(gate + i, lanes))), out + i, lanes);
    });
  });
}

void gate_range_backward(ConstView dy, ConstView x, ConstView gates, View dx, View dgates, Range range) {
  with_element(x.dtype(), [&](auto element) HWY_ATTR {
    using T = decltype(element);
    const T *in = x.as<T>() + range.begin, *gate = gates.as<T>() + range.begin, *d = dy.as<T>() + range.begin;
    T *to = dx.as<T>() + range.begin, *to_gate = dgates.as<T>() + range.begin;
    for_each_vector(range.end - range.begin, [&](int64_t i, auto lanes) HWY_ATTR {
      const VecF32 s = sigmoid_gate_of(load_streaming(gate + i, lanes)), through = hn::Mul(load(d + i, lanes), s);
      const VecF32 rest = hn::Sub(hn::Set(TagF32(), 1.0f), s);
      store(hn::Mul(hn::Mul(through, load_streaming(in + i, lanes)), rest), to_gate + i, lanes);
      store(through, to + i, lanes);
    });
  });
}

/// A head of a row: where its values and its gates begin.
struct GatedHeads {
  int64_t heads, size, groups, width, column;
  GatedHeads(ConstView x, ConstView gates, int64_t column_)
      : heads(x.shape()[1]), size(x.shape()[2]), groups(gates.shape()[1]), width(gates.shape()[2]), column(column_) {}
  int64_t at(int64_t row, int64_t head) const { return (row * heads + head) * size; }
  int64_t gate(int64_t row, int64_t head) const {
    const int64_t group = heads / groups;
    return (row * groups + head / group) * width + column + head % group * size;
  }
};

template <class T>
HWY_INLINE float rstd_of_head(const T* x, int64_t size, float eps) {
  const float squares = sum_over(size, [&](int64_t i, auto lanes) HWY_ATTR {
    const VecF32 v = load(x + i, lanes);
    return hn::Mul(v, v);
  });
  return 1.0f / std::sqrt(squares / static_cast<float>(size) + eps);
}

void gated_norm_rows(ConstView x, ConstView gates, int64_t column, ConstView w, float eps, View y, Range rows) {
  with_element(x.dtype(), [&](auto element) HWY_ATTR {
    using T = decltype(element);
    const GatedHeads h(x, gates, column);
    for (int64_t row = rows.begin; row < rows.end; ++row)
      for (int64_t head = 0; head < h.heads; ++head) {
        const T *in = x.as<T>() + h.at(row, head), *gate = gates.as<T>() + h.gate(row, head);
        T* out = y.as<T>() + h.at(row, head);
        const VecF32 rstd = hn::Set(TagF32(), rstd_of_head(in, h.size, eps));
        for_each_vector(h.size, [&](int64_t i, auto lanes) HWY_ATTR {
          const VecF32 silu = Silu::value<T>(load(gate + i, lanes));
          store(hn::Mul(hn::Mul(hn::Mul(load(in + i, lanes), rstd), load(w.as<T>() + i, lanes)), silu), out + i, lanes);
        });
      }
  });
}

/// dw: this share's sums.
void gated_norm_backward_rows(ConstView dy, ConstView x, ConstView gates, int64_t column, ConstView w, float eps,
                              View dx, View dgates, float* dw, Range rows) {
  with_element(x.dtype(), [&](auto element) HWY_ATTR {
    using T = decltype(element);
    const TagF32 d;
    const GatedHeads h(x, gates, column);
    std::fill_n(dw, h.size, 0.0f);
    for (int64_t row = rows.begin; row < rows.end; ++row)
      for (int64_t head = 0; head < h.heads; ++head) {
        const T *in = x.as<T>() + h.at(row, head), *gate = gates.as<T>() + h.gate(row, head),
                *dout = dy.as<T>() + h.at(row, head);
        T *to = dx.as<T>() + h.at(row, head), *to_gate = dgates.as<T>() + h.gate(row, head);
        const float r = rstd_of_head(in, h.size, eps);
        const VecF32 rstd = hn::Set(d, r);
        const float product = sum_over(h.size, [&](int64_t i, auto lanes) HWY_ATTR {
          const VecF32 z = load(gate + i, lanes), s = sigmoid_gate_of(z), silu = hn::Mul(z, s);
          const VecF32 g = load(dout + i, lanes), gain = load(w.as<T>() + i, lanes);
          const VecF32 xhat = hn::Mul(load(in + i, lanes), rstd), gx = hn::Mul(g, xhat);
          store(hn::MulAdd(gx, silu, load(dw + i, lanes)), dw + i, lanes);
          const VecF32 slope = hn::Mul(s, hn::MulAdd(z, hn::Sub(hn::Set(d, 1.0f), s), hn::Set(d, 1.0f)));
          store(hn::Mul(hn::Mul(gx, gain), slope), to_gate + i, lanes);
          return hn::Mul(hn::Mul(gx, gain), silu);
        });
        const VecF32 mean = hn::Set(d, product / static_cast<float>(h.size));
        for_each_vector(h.size, [&](int64_t i, auto lanes) HWY_ATTR {
          const VecF32 z = load(gate + i, lanes), silu = hn::Mul(z, sigmoid_gate_of(z));
          const VecF32 g = hn::Mul(hn::Mul(load(dout + i, lanes), load(w.as<T>() + i, lanes)), silu);
          const VecF32 xhat = hn::Mul(load(in + i, lanes), rstd);
          store(hn::Mul(rstd, hn::NegMulAdd(xhat, mean, g)), to + i, lanes);
        });
      }
  });
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cstring>

namespace trireme {

HWY_EXPORT(gate_range);
HWY_EXPORT(gate_range_backward);
HWY_EXPORT(gated_norm_rows);
HWY_EXPORT(gated_norm_backward_rows);

namespace {

constexpr int64_t kUnit = 64;  // elements: shares begin at cache lines, whatever the type

/// Copies the vectors of x's rows of a share to or from the two others: move(vector of x, of the others, bytes).
template <class Move>
void move_vectors(const Shape& x, const std::byte* all, const std::byte* qkv, const std::byte* gates, size_t element,
                  Range rows, Move move) {
  const int64_t parts = x[2], group = (parts - 2) / 2, groups = x[1];
  const size_t bytes = static_cast<size_t>(x[3]) * element;
  for (int64_t of = rows.begin * groups; of < rows.end * groups; ++of)
    for (int64_t part = 0; part < parts; ++part) {
      const bool query = part < 2 * group, gate = query && part % 2 == 1;
      const int64_t other = gate ? of * group + part / 2 : of * (group + 2) + (query ? part / 2 : part - group);
      move(all + static_cast<size_t>(of * parts + part) * bytes,
           (gate ? gates : qkv) + static_cast<size_t>(other) * bytes, bytes);
    }
}

const std::byte* bytes_of(ConstView v) { return static_cast<const std::byte*>(v.data()); }

}  // namespace

void CpuOps::do_split_gates(Context& context, ConstView x, View qkv, View gates) {
  for_each_part(context.threads, [&](int part) {
    move_vectors(x.shape(), bytes_of(x), bytes_of(qkv), bytes_of(gates), size_of(x.dtype()),
                 share_of(x.rows(), part, context.threads),
                 [](const std::byte* of_x, const std::byte* of_other, size_t bytes) {
                   std::memcpy(const_cast<std::byte*>(of_other), of_x, bytes);
                 });
  });
}

void CpuOps::do_join_gates(Context& context, ConstView qkv, ConstView gates, View x) {
  for_each_part(context.threads, [&](int part) {
    move_vectors(x.shape(), bytes_of(x), bytes_of(qkv), bytes_of(gates), size_of(x.dtype()),
                 share_of(x.rows(), part, context.threads),
                 [](const std::byte* of_x, const std::byte* of_other, size_t bytes) {
                   std::memcpy(const_cast<std::byte*>(of_x), of_other, bytes);
                 });
  });
}

void CpuOps::do_sigmoid_gate(Context& context, ConstView x, ConstView gates, View y) {
  for_each_part(context.threads, [&](int part) {
    HWY_DYNAMIC_DISPATCH(gate_range)(x, gates, y, share_of(x.count(), part, context.threads, kUnit));
  });
}

void CpuOps::do_sigmoid_gate_backward(Context& context, ConstView dy, ConstView x, ConstView gates, View dx,
                                      View dgates) {
  for_each_part(context.threads, [&](int part) {
    HWY_DYNAMIC_DISPATCH(gate_range_backward)
    (dy, x, gates, dx, dgates, share_of(x.count(), part, context.threads, kUnit));
  });
}

void CpuOps::do_gated_norm(Context& context, ConstView x, ConstView gates, int64_t column, ConstView w, float eps,
                           View y) {
  for_each_part(context.threads, [&](int part) {
    HWY_DYNAMIC_DISPATCH(gated_norm_rows)
    (x, gates, column, w, eps, y, share_of(x.rows(), part, context.threads));
  });
}

void CpuOps::do_gated_norm_backward(Context& context, ConstView dy, ConstView x, ConstView gates, int64_t column,
                                    ConstView w, float eps, View dx, View dgates, View dw, Write write) {
  const ArenaScope scope(*context.scratch);
  const ColumnSums sums(*context.scratch, context.threads, x.shape()[2]);
  for_each_part(
      context.threads,
      [&](int part) {
        HWY_DYNAMIC_DISPATCH(gated_norm_backward_rows)
        (dy, x, gates, column, w, eps, dx, dgates, sums.of(part), share_of(x.rows(), part, context.threads));
      },
      [&](int part) {
        if (!dw.empty()) sums.finish(part, dw, write);
      });
}

}  // namespace trireme
#endif
