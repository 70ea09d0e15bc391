#pragma once
// States that are cut from a whole one, and put together again.

#include <algorithm>

#include "optim/training_state.h"
#include "tests/support/layouts.h"

namespace trireme {

/// What a parameter of one table has of that of another, from one state's flat array to the other's.
template <class T>
void copy_box(const Parameter& from, View source, const Parameter& to, View destination) {
  const View a = view_of(source, from), b = view_of(destination, to);
  for_each_run(overlap(from.stored(), to.stored()), from.box, to.box, [&](int64_t at, int64_t place, int64_t count) {
    std::copy_n(a.as<T>() + at, count, b.as<T>() + place);
  });
}

/// Copies what both tables hold: weights, remainders and moments where both states have them.
inline void copy_common(const ParameterTable& from, const TrainingState& source, const ParameterTable& to,
                        TrainingState& destination) {
  for (const Parameter& parameter : from.all()) {
    const Parameter* other = to.look_up(parameter.name);
    if (!other) continue;
    if (source.weights().dtype() == DType::bf16) {
      copy_box<bf16_t>(parameter, source.weights(), *other, destination.weights());
      copy_box<int16_t>(parameter, source.remainder(), *other, destination.remainder());
    } else {
      copy_box<float>(parameter, source.weights(), *other, destination.weights());
    }
    if (source.moment1().empty() || destination.moment1().empty()) continue;
    copy_box<float>(parameter, source.moment1(), *other, destination.moment1());
    copy_box<float>(parameter, source.moment2(), *other, destination.moment2());
  }
}

}  // namespace trireme
