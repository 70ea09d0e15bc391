// Gradient of the gated delta rule in chunks, the last one first (names as in delta-inl.h). With S' the state after a
// chunk, and dS' its gradient:
//   dx = P^T dout + t k dS';  y: (1 + A)^T y = dx;  z = -b e y
//   dv = b y;  dS = e_last dS' + q^T (e dout) + k^T z
//   dP = dout x^T;  dA = -y x^T;  dq = e dout S^T + (dP D) k
//   dk = (t x) dS'^T + z S^T + (dP D)^T q + (dKK + dKK^T) k, dKK = b dA D
//   db = y (v - e k S) + dA k k^T D
//   dG = what e, t and D have of it; dg_i = the sum of dG from i on
// The state before a chunk was kept, the rest is made again.

#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/delta.h"
#include "ops/cpu/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/delta_backward.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/cpu/delta-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

/// Working memory of a chunk.
struct BackwardRows {
  float *ks, *error, *x, *dout, *dx, *z, *scaled;  ///< [kChunk, values]
  float *x_t, *state_t, *dstate_t;                 ///< [values, kChunk]; [values, keys]
  float* state;                                    ///< [keys, values]
  float *dq, *dk, *by_state;                       ///< [kChunk, keys]: of the group's heads; dout S^T
  float *dp, *da;                                  ///< [kChunk, kChunk] dP, then dP D; y x^T, then dKK
  float *columns, *dbeta, *dsums;                  ///< [kChunk] sums of D dD over columns; db; dG
  BackwardRows(Cutter& cut, const DeltaSizes& sizes) {
    for (float** rows : {&ks, &error, &x, &dout, &dx, &z, &scaled, &x_t})
      *rows = cut.take<float>(kChunk * sizes.values);
    for (float** square : {&state_t, &dstate_t, &state}) *square = cut.take<float>(sizes.keys * sizes.values);
    for (float** rows : {&dq, &dk, &by_state}) *rows = cut.take<float>(kChunk * sizes.keys);
    for (float** square : {&dp, &da}) *square = cut.take<float>(kChunk * kChunk);
    for (float** each : {&columns, &dbeta, &dsums}) *each = cut.take<float>(kChunk);
  }
};

/// to [columns, rows] = from [rows, columns] transposed; both multiples of kLanes.
HWY_INLINE void transpose_square(const float* from, int64_t rows, int64_t columns, float* to) {
  const auto load_at = [&](int64_t row, int64_t c)
                           HWY_ATTR { return hn::BitCast(TagU32(), hn::LoadU(TagF32(), from + row * columns + c)); };
  const auto store_at = [&](int64_t c, int64_t row, VecU32 v)
                            HWY_ATTR { hn::StoreU(v, TagU32(), reinterpret_cast<uint32_t*>(to) + c * rows + row); };
  for (int64_t c = transpose_whole_vectors(rows, rows, columns, load_at, store_at); c < columns; ++c)
    for (int64_t row = 0; row < rows; ++row) to[c * rows + row] = from[row * columns + c];
}

/// dP becomes dP D and y x^T becomes dKK; their part of db and dG.
HWY_INLINE void through_decays(const DeltaKeys& keys, const DeltaDecays& decays, const BackwardRows& r, int64_t count) {
  const TagF32 d;
  std::fill_n(r.columns, kChunk, 0.0f);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = i * kChunk;
    VecF32 of_row = hn::Zero(d), of_beta = hn::Zero(d);
    const VecF32 beta = hn::Set(d, decays.beta[i]);
    for (int64_t j = 0; j < kChunk; j += kLanes) {
      const VecF32 decay = hn::LoadU(d, decays.d + at + j);  // 0 above the diagonal
      const VecF32 below = hn::IfThenElseZero(first_lanes(i - j), decay);
      const VecF32 dp = hn::Mul(hn::LoadU(d, r.dp + at + j), decay);
      const VecF32 da = hn::Neg(hn::Mul(hn::LoadU(d, r.da + at + j), below));
      const VecF32 da_kk = hn::Mul(da, hn::LoadU(d, keys.kk + at + j)), dkk = hn::Mul(da, beta);
      // D dD, of P and of A
      const VecF32 both = hn::MulAdd(dp, hn::LoadU(d, keys.qk + at + j), hn::Mul(beta, da_kk));
      of_row = hn::Add(of_row, both);
      of_beta = hn::Add(of_beta, da_kk);
      hn::StoreU(hn::Sub(hn::LoadU(d, r.columns + j), both), d, r.columns + j);
      hn::StoreU(dp, d, r.dp + at + j);
      hn::StoreU(dkk, d, r.da + at + j);
    }
    r.dsums[i] += sum_lanes(of_row);
    r.dbeta[i] += sum_lanes(of_beta);
  }
  for (int64_t i = 0; i < count; ++i) r.dsums[i] += r.columns[i];
}

/// One value head's chunk: dv, db and the gradient of the decay's logit in memory, its terms of dq and dk, the gradient
/// of the state before it in dstate. Adds to the sums of decay_log and decay_bias.
template <class T>
HWY_INLINE void head_chunk_backward(const DeltaBackward& call, const DeltaSizes& sizes, const DeltaKeys& keys,
                                    const DeltaDecays& decays, const BackwardRows& r, const DeltaTask& task,
                                    int64_t member, int64_t row, int64_t count, float* dstate, float* sums) {
  const DeltaShape& shape = call.shape;
  const int64_t values = sizes.values, key_width = sizes.keys, head = task.key_head * shape.group + member;
  const auto each_row = [&](auto&& f) HWY_ATTR {
    for (int64_t i = 0; i < count; ++i) f(i, i * values);
  };
  const int64_t stride = shape.heads() * sizes.value;
  copy_rows(Rows<const T>{call.dout.as<T>() + row * stride + head * sizes.value, stride}, count, sizes.value, r.dout,
            values);
  solve_chunk(sizes, keys, decays, value_rows_of(call.mixed.as<T>(), shape, task.key_head, member, row), r.state, count,
              r.ks, r.error, r.x);
  transpose_square(r.state, key_width, values, r.state_t);
  transpose_square(dstate, key_width, values, r.dstate_t);
  transpose_rows(Rows<const float>{r.x, values}, count, values, r.x_t);

  // dx = P^T dout + t k dS', and what t has of dG.
  product<Side::rows>(count, values, sizes.key, keys.k, key_width, dstate, values, r.dx, values, false);
  float of_last = decays.last * dot_of(r.state, dstate, sizes.key * values);
  each_row([&](int64_t i, int64_t at) HWY_ATTR {
    scale_to(decays.t[i], r.dx + at, values, r.dx + at);
    const float of_t = dot_of(r.x + at, r.dx + at, values);
    r.dsums[i] = -of_t;
    of_last += of_t;
    scale_to(decays.t[i], r.x + at, values, r.scaled + at);
  });
  add_lower_transposed(count, values, decays.p, kChunk, r.dout, values, r.dx, values);
  product<Side::rows>(count, key_width, sizes.value, r.scaled, values, r.dstate_t, key_width, r.dk, key_width, true);

  // Through the outputs.
  product<Side::rows>(count, kChunk, sizes.value, r.dout, values, r.x_t, kChunk, r.dp, kChunk, false);
  product<Side::rows>(count, key_width, sizes.value, r.dout, values, r.state_t, key_width, r.by_state, key_width,
                      false);
  each_row([&](int64_t i, int64_t at) HWY_ATTR {
    const float* by_state = r.by_state + i * key_width;
    r.dsums[i] += decays.e[i] * dot_of(keys.q + i * key_width, by_state, key_width);
    add_scaled(decays.e[i], by_state, key_width, r.dq + i * key_width);
    scale_to(decays.e[i], r.dout + at, values, r.scaled + at);
  });
  scale_to(decays.last, dstate, sizes.key * values, dstate);
  product<Side::transposed>(sizes.key, values, count, keys.q, key_width, r.scaled, values, dstate, values, true);

  // Through the solution.
  solve_transposed(count, values, decays.lower, kChunk, r.dx);
  product<Side::rows>(count, kChunk, sizes.value, r.dx, values, r.x_t, kChunk, r.da, kChunk, false);
  each_row([&](int64_t i, int64_t at) HWY_ATTR {
    r.dbeta[i] = dot_of(r.dx + at, r.error + at, values);
    scale_to(decays.beta[i], r.dx + at, values, r.scaled + at);
    scale_to(-decays.e[i], r.scaled + at, values, r.z + at);
    r.dsums[i] += dot_of(r.z + at, r.ks + at, values);
  });
  store_rows(r.scaled, values, count, sizes.value, 1.0f,
             value_rows_of(call.dmixed.as<T>(), shape, task.key_head, member, row));
  product<Side::rows>(count, key_width, sizes.value, r.z, values, r.state_t, key_width, r.dk, key_width, true);
  product<Side::transposed>(sizes.key, values, count, keys.k, key_width, r.z, values, dstate, values, true);

  through_decays(keys, decays, r, count);
  add_lower(count, key_width, r.dp, kChunk, keys.k, key_width, r.dq, key_width);
  add_lower_transposed(count, key_width, r.dp, kChunk, keys.q, key_width, r.dk, key_width);
  add_lower(count, key_width, r.da, kChunk, keys.k, key_width, r.dk, key_width);
  add_lower_transposed(count, key_width, r.da, kChunk, keys.k, key_width, r.dk, key_width);

  double dg = static_cast<double>(of_last);
  for (int64_t i = count - 1; i >= 0; --i) {
    dg += static_cast<double>(r.dsums[i]);
    const auto d = static_cast<float>(dg), beta = decays.beta[i];
    T* logits = call.dprojected.as<T>() + ((row + i) * shape.key_heads + task.key_head + 1) * shape.width() -
                2 * shape.group + member;
    logits[0] = from_float<T>(r.dbeta[i] * beta * (1.0f - beta));
    logits[shape.group] = from_float<T>(d * decays.slope[i]);
    sums[head] += d * decays.g[i];
    sums[shape.heads() + head] += d * decays.slope[i];
  }
}

/// Gradients of the normalised rows become those of the rows of `mixed`, in memory.
template <class T>
HWY_INLINE void store_through_lengths(const DeltaBackward& call, const DeltaSizes& sizes, const float* normalised,
                                      const float* scale, float root, float* d, int64_t count, T* to) {
  for (int64_t i = 0; i < count; ++i) {
    float* const row = d + i * sizes.keys;
    const float* x = normalised + i * sizes.keys;  // root scale times the row
    const float product = dot_of(row, x, sizes.keys) / (root * root);
    scale_to(root * scale[i], row, sizes.keys, row);
    add_scaled(-root * scale[i] * product, x, sizes.keys, row);
  }
  store_rows(d, sizes.keys, count, sizes.key, 1.0f, Rows<T>{to, call.shape.key_heads * call.shape.mixed_width()});
}

template <class T>
void backward_task(const DeltaBackward& call, const DeltaTask& task, float* scratch) {
  const DeltaShape& shape = call.shape;
  const DeltaSizes sizes(shape);
  Cutter cut(scratch);
  const DeltaKeys keys(cut, sizes);
  DeltaDecays decays(cut);
  const BackwardRows rows(cut, sizes);
  const int64_t state_floats = sizes.keys * sizes.values, stored = sizes.key * sizes.value;
  float* const dstates = cut.take<float>(shape.group * state_floats);
  std::fill_n(dstates, shape.group * state_floats, 0.0f);
  float* const sums = call.sums + 2 * task.sequence * shape.heads();
  const int64_t first_head = task.key_head * shape.group;
  for (int64_t m = first_head; m < first_head + shape.group; ++m) sums[m] = sums[shape.heads() + m] = 0;
  const float root = 1.0f / std::sqrt(static_cast<float>(sizes.key));
  for (int64_t begin = (task.length - 1) / kChunk * kChunk; begin >= 0 && task.length > 0; begin -= kChunk) {
    const int64_t row = task.begin + begin, count = std::min(kChunk, task.length - begin);
    keys.load_chunk<T>(call.mixed, shape, sizes, task.key_head, row, count);
    std::fill_n(rows.dq, count * sizes.keys, 0.0f);
    std::fill_n(rows.dk, count * sizes.keys, 0.0f);
    for (int64_t m = 0; m < shape.group; ++m) {
      const int64_t border = task.border + begin / kChunk - 1;
      std::fill_n(rows.state, state_floats, 0.0f);
      if (begin > 0)
        load_state(call.states.as<float>() + (border * shape.heads() + first_head + m) * stored, sizes, rows.state);
      decays.load_chunk<T>(call.projected, call.decay_log, call.decay_bias, shape, keys, task.key_head, m, row, count);
      head_chunk_backward<T>(call, sizes, keys, decays, rows, task, m, row, count, dstates + m * state_floats, sums);
    }
    T* const to = call.dmixed.as<T>() + (row * shape.key_heads + task.key_head) * shape.mixed_width();
    store_through_lengths(call, sizes, keys.q, keys.q_scale, root, rows.dq, count, to);
    store_through_lengths(call, sizes, keys.k, keys.k_scale, 1.0f, rows.dk, count, to + sizes.key);
  }
}

void delta_backward_task(const DeltaBackward& call, const DeltaTask& task, float* scratch) {
  with_element(call.mixed.dtype(),
               [&](auto element) HWY_ATTR { backward_task<decltype(element)>(call, task, scratch); });
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <omp.h>

namespace trireme {

HWY_EXPORT(delta_backward_task);

int64_t delta_backward_floats(const DeltaShape& shape) {
  const int64_t keys = (shape.key_size + 15) / 16 * 16, values = (shape.value_size + 15) / 16 * 16;
  return kDeltaChunk * (6 * keys + 8 * values + 10) + 7 * kDeltaChunk * kDeltaChunk + (shape.group + 3) * keys * values;
}

void CpuOps::do_delta_rule_backward(Context& context, ConstView dout, ConstView mixed, ConstView projected,
                                    ConstView decay_log, ConstView decay_bias, const DeltaShape& shape,
                                    ConstView states, View dmixed, View dprojected, View ddecay_log, View ddecay_bias,
                                    Write write) {
  const ArenaScope scope(*context.scratch);
  const int64_t floats = delta_backward_floats(shape), sequences = shape.offsets.rows() - 1, heads = shape.heads();
  float* scratch = context.scratch->take(DType::f32, {context.threads, floats}).as<float>();
  float* sums = context.scratch->take(DType::f32, {std::max<int64_t>(sequences, 1), 2, heads}).as<float>();
  const DeltaBackward call{.shape = shape,
                           .dout = dout,
                           .mixed = mixed,
                           .projected = projected,
                           .decay_log = decay_log,
                           .decay_bias = decay_bias,
                           .states = states,
                           .dmixed = dmixed,
                           .dprojected = dprojected,
                           .sums = sums};
#pragma omp parallel for num_threads(context.threads) schedule(dynamic, 1)
  for (int64_t i = 0; i < sequences * shape.key_heads; ++i)
    HWY_DYNAMIC_DISPATCH(delta_backward_task)(call, delta_task(shape, i), scratch + omp_get_thread_num() * floats);
  for (int64_t kind = 0; kind < 2; ++kind) {
    const View to = kind == 0 ? ddecay_log : ddecay_bias;
    for (int64_t head = 0; head < heads && !to.empty(); ++head) {
      float sum = 0;
      for (int64_t s = 0; s < sequences; ++s) sum += sums[(2 * s + kind) * heads + head];
      float& value = to.as<float>()[head];
      value = write == Write::overwrite ? sum : value + sum;
    }
  }
}

}  // namespace trireme
#endif
