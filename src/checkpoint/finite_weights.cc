#include "checkpoint/finite_weights.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "tensor/f16.h"

namespace trireme {
namespace {

bool is_finite(float value) { return std::isfinite(value); }
bool is_finite(double value) { return std::isfinite(value); }
bool is_finite(bf16_t value) {
  constexpr uint16_t kExponent = 0x7f80;  // all of its bits set: infinite or not a number
  return (value.bits & kExponent) != kExponent;
}

bool is_finite(f16_t value) {
  constexpr uint16_t kExponent = 0x7c00;
  return (value.bits & kExponent) != kExponent;
}

template <class T>
int64_t count_in(ConstView x) {
  const HostValues<T> on_host(x);
  const std::span<const T> values = on_host.get();
  int64_t count = 0;
#pragma omp parallel for schedule(static) reduction(+ : count)
  for (size_t i = 0; i < values.size(); ++i) count += is_finite(values[i]) ? 0 : 1;
  return count;
}

int64_t not_finite(ConstView flat, int64_t first, int64_t n) {
  const ConstView part = flat.rows_slice(first, n);
  if (flat.dtype() == DType::bf16) return count_in<bf16_t>(part);
  if (flat.dtype() == DType::f16) return count_in<f16_t>(part);
  if (flat.dtype() == DType::f64) return count_in<double>(part);
  return count_in<float>(part);
}

}  // namespace

std::string describe_not_finite(const TrainingState& state, const ParameterTable& table) {
  const auto bad_weights = [&](const Parameter& parameter) {
    const int64_t first = parameter.offset, n = parameter.stored_shape.count();
    if (!state.shards_weights()) return not_finite(state.weights(), first, n);
    int64_t bad = 0;
    state.for_owned(first, first + n,
                    [&](int64_t begin, int64_t count, int64_t) { bad += not_finite(state.weights(), begin, count); });
    return bad;
  };
  const auto bad_states = [&](const StateArray& array, const Parameter& parameter) {
    int64_t bad = 0;
    for (const auto& held : std::ranges::equal_range(array.held, parameter.offset, {}, &StateArray::Held::parameter))
      bad += not_finite(array.values, held.place, held.count);
    return bad;
  };
  std::string first;
  size_t tensors = 0, more = 0;
  const auto look = [&](const std::string& name, int64_t bad, int64_t count) {
    ++tensors;
    if (bad == 0) return;
    more += first.empty() ? 0 : 1;
    if (first.empty()) first = fmt::format("{} ({} of {} values)", name, bad, count);
  };
  for (const Parameter& parameter : table.all()) {
    look(parameter.name, bad_weights(parameter), parameter.stored_shape.count());
    for (const StateArray& array : state.states()) {
      if (std::ranges::find(parameter.states, array.kind) == parameter.states.end()) continue;
      look(fmt::format("{}, {}", parameter.name, array.kind.name), bad_states(array, parameter),
           value_count(array.kind, parameter));
    }
  }
  if (more > 0) first += fmt::format(" and {} more of {} tensors", more, tensors);
  return first;
}

void require_finite(const TrainingState& state, const ParameterTable& table, const std::string& path,
                    const std::string& advice) {
  const std::string bad = describe_not_finite(state, table);
  require(bad.empty(), ErrorKind::numeric, "{} holds NaN or infinite values: {}; {}", path, bad, advice);
}

}  // namespace trireme
