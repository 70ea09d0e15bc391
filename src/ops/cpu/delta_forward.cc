// The gated delta rule in chunks (delta-inl.h), forward and from the state of generation.

#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/delta.h"
#include "ops/cpu/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/delta_forward.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/cpu/delta-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

/// Working memory of a head's chunk, [kChunk, values] each.
struct ForwardRows {
  float *ks, *x, *out;
  ForwardRows(Cutter& cut, const DeltaSizes& sizes) {
    for (float** rows : {&ks, &x, &out}) *rows = cut.take<float>(kChunk * sizes.values);
  }
};

/// One value head's chunk: its outputs, and the state after it.
template <class T>
HWY_INLINE void head_chunk(const DeltaForward& call, const DeltaSizes& sizes, const DeltaKeys& keys,
                           const DeltaDecays& decays, const ForwardRows& rows, int64_t key_head, int64_t member,
                           int64_t row, int64_t count, float* state) {
  const DeltaShape& shape = call.shape;
  const int64_t values = sizes.values;
  solve_chunk(sizes, keys, decays, value_rows_of(call.mixed.as<T>(), shape, key_head, member, row), state, count,
              rows.ks, rows.x, rows.x);
  product<Side::rows>(count, values, sizes.key, keys.q, sizes.keys, state, values, rows.out, values, false);
  for (int64_t i = 0; i < count; ++i) scale_to(decays.e[i], rows.out + i * values, values, rows.out + i * values);
  add_lower(count, values, decays.p, kChunk, rows.x, values, rows.out, values);
  const int64_t stride = shape.heads() * sizes.value;
  T* out = call.out.as<T>() + row * stride + (key_head * shape.group + member) * sizes.value;
  store_rows(rows.out, values, count, sizes.value, 1.0f, Rows<T>{out, stride});
  scale_to(decays.last, state, sizes.key * values, state);
  for (int64_t i = 0; i < count; ++i) scale_to(decays.t[i], rows.x + i * values, values, rows.x + i * values);
  product<Side::transposed>(sizes.key, values, count, keys.k, sizes.keys, rows.x, values, state, values, true);
}

template <class T>
void forward_task(const DeltaForward& call, const DeltaTask& task, float* scratch) {
  const DeltaShape& shape = call.shape;
  const DeltaSizes sizes(shape);
  Cutter cut(scratch);
  const DeltaKeys keys(cut, sizes);
  DeltaDecays decays(cut);
  const ForwardRows rows(cut, sizes);
  const int64_t state_floats = sizes.keys * sizes.values, stored = sizes.key * sizes.value;
  float* const states = cut.take<float>(shape.group * state_floats);
  const int64_t first_head = task.key_head * shape.group;
  float* const kept =
      call.state.empty() ? nullptr : call.state.as<float>() + (task.sequence * shape.heads() + first_head) * stored;
  std::fill_n(states, shape.group * state_floats, 0.0f);
  if (kept && call.past.as<int32_t>()[task.sequence] > 0)
    for (int64_t m = 0; m < shape.group; ++m) load_state(kept + m * stored, sizes, states + m * state_floats);
  for (int64_t begin = 0; begin < task.length; begin += kChunk) {
    const int64_t row = task.begin + begin, count = std::min(kChunk, task.length - begin);
    keys.load_chunk<T>(call.mixed, shape, sizes, task.key_head, row, count);
    for (int64_t m = 0; m < shape.group; ++m) {
      float* const state = states + m * state_floats;
      if (begin > 0 && !call.states.empty()) {
        const int64_t border = task.border + begin / kChunk - 1;
        store_rows(
            state, sizes.values, sizes.key, sizes.value, 1.0f,
            Rows<float>{call.states.as<float>() + (border * shape.heads() + first_head + m) * stored, sizes.value});
      }
      decays.load_chunk<T>(call.projected, call.decay_log, call.decay_bias, shape, keys, task.key_head, m, row, count);
      head_chunk<T>(call, sizes, keys, decays, rows, task.key_head, m, row, count, state);
    }
  }
  if (kept && task.length > 0)
    for (int64_t m = 0; m < shape.group; ++m)
      store_rows(states + m * state_floats, sizes.values, sizes.key, sizes.value, 1.0f,
                 Rows<float>{kept + m * stored, sizes.value});
}

void delta_forward_task(const DeltaForward& call, const DeltaTask& task, float* scratch) {
  with_element(call.mixed.dtype(),
               [&](auto element) HWY_ATTR { forward_task<decltype(element)>(call, task, scratch); });
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <omp.h>

namespace trireme {

HWY_EXPORT(delta_forward_task);

namespace {

void run_forward(Context& context, const DeltaForward& call) {
  const ArenaScope scope(*context.scratch);
  const int64_t floats = delta_forward_floats(call.shape);
  float* scratch = context.scratch->take(DType::f32, {context.threads, floats}).as<float>();
  const int64_t tasks = (call.shape.offsets.rows() - 1) * call.shape.key_heads;
#pragma omp parallel for num_threads(context.threads) schedule(dynamic, 1)
  for (int64_t i = 0; i < tasks; ++i) HWY_DYNAMIC_DISPATCH(delta_forward_task)
  (call, delta_task(call.shape, i), scratch + omp_get_thread_num() * floats);
}

}  // namespace

DeltaTask delta_task(const DeltaShape& shape, int64_t i) {
  const auto offsets = shape.offsets.values<int32_t>();
  const int64_t sequence = i / shape.key_heads, begin = offsets[static_cast<size_t>(sequence)];
  int64_t border = 0;
  for (size_t s = 0; s < static_cast<size_t>(sequence); ++s)
    border += std::max<int64_t>(0, offsets[s + 1] - offsets[s] - 1) / kDeltaChunk;
  return {.sequence = sequence,
          .key_head = i % shape.key_heads,
          .begin = begin,
          .length = offsets[static_cast<size_t>(sequence) + 1] - begin,
          .border = border};
}

int64_t delta_forward_floats(const DeltaShape& shape) {
  const int64_t keys = (shape.key_size + 15) / 16 * 16, values = (shape.value_size + 15) / 16 * 16;
  return kDeltaChunk * (3 * keys + 3 * values + 7) + 5 * kDeltaChunk * kDeltaChunk + shape.group * keys * values;
}

size_t delta_scratch_bytes(const CallSizes& sizes) {
  if (sizes.delta.key_heads == 0) return 0;
  const int64_t channels = sizes.delta.key_heads * sizes.delta.mixed_width(), taps = sizes.taps;
  const int64_t rule = std::max(delta_forward_floats(sizes.delta), delta_backward_floats(sizes.delta)) * sizes.threads +
                       2 * sizes.rows * sizes.delta.heads();
  const int64_t convolution = (sizes.threads + 1) * (taps * channels + 16) + taps * channels;
  return static_cast<size_t>(std::max(rule, convolution)) * sizeof(float) + size_t{4} * 64;
}

void CpuOps::do_delta_rule(Context& context, ConstView mixed, ConstView projected, ConstView decay_log,
                           ConstView decay_bias, const DeltaShape& shape, View out, View states) {
  run_forward(context, {.shape = shape,
                        .mixed = mixed,
                        .projected = projected,
                        .decay_log = decay_log,
                        .decay_bias = decay_bias,
                        .out = out,
                        .states = states,
                        .past = {},
                        .state = {}});
}

void CpuOps::do_delta_rule_cached(Context& context, ConstView mixed, ConstView projected, ConstView decay_log,
                                  ConstView decay_bias, const DeltaShape& shape, ConstView past, View state, View out) {
  run_forward(context, {.shape = shape,
                        .mixed = mixed,
                        .projected = projected,
                        .decay_log = decay_log,
                        .decay_bias = decay_bias,
                        .out = out,
                        .states = {},
                        .past = past,
                        .state = state});
}

}  // namespace trireme
#endif
