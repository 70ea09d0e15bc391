#pragma once
// Splits a complete state and joins its parts again.

#include <algorithm>

#include "optim/training_state.h"
#include "tests/support/layouts.h"

namespace trireme {

/// Copies the common part of a parameter between two tables, from one state's flat array to the other's.
template <class T>
void copy_box(const Parameter& from, ConstView source, const Parameter& to, View destination) {
  const ConstView a = view_of(source, from);
  const View b = view_of(destination, to);
  for_each_run(overlap(from.stored(), to.stored()), from.box, to.box, [&](int64_t at, int64_t place, int64_t count) {
    std::copy_n(a.as<T>() + at, count, b.as<T>() + place);
  });
}

/// Copies the common parts of both tables: weights, remainders and moments if both states have them.
inline void copy_common(const ParameterTable& from, const TrainingState& source, const ParameterTable& to,
                        TrainingState& destination) {
  const std::vector<View> arrays = destination.replicated();
  const View &weights = arrays[0], &remainder = arrays[1];
  for (const Parameter& parameter : from.all()) {
    const Parameter* other = to.look_up(parameter.name);
    if (!other) continue;
    if (source.weights().dtype() == DType::bf16) {
      copy_box<bf16_t>(parameter, source.weights(), *other, weights);
      copy_box<int16_t>(parameter, source.remainder(), *other, remainder);
    } else {
      copy_box<float>(parameter, source.weights(), *other, weights);
    }
    if (!source.trains() || !parameter.trained()) continue;
    for (const StateArray& to_array : destination.states())
      copy_box<float>(parameter, source.state(to_array.kind.name), *other, to_array.values);
  }
}

}  // namespace trireme
