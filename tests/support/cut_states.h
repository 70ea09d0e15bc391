#pragma once
// States that are cut from a whole one, and put together again.

#include <algorithm>

#include "optim/training_state.h"
#include "tests/support/layouts.h"

namespace trireme {

/// What a parameter of one table has of that of another, from one state's flat array to the other's.
template <class T>
void copy_box(const Parameter& from, ConstView source, const Parameter& to, View destination) {
  const ConstView a = view_of(source, from);
  const View b = view_of(destination, to);
  for_each_run(overlap(from.stored(), to.stored()), from.box, to.box, [&](int64_t at, int64_t place, int64_t count) {
    std::copy_n(a.as<T>() + at, count, b.as<T>() + place);
  });
}

/// Copies what both tables hold: weights, remainders and moments where both states have them.
inline void copy_common(const ParameterTable& from, const TrainingState& source, const ParameterTable& to,
                        TrainingState& destination) {
  const auto [weights, remainder, moment1, moment2] = destination.replicated();
  for (const Parameter& parameter : from.all()) {
    const Parameter* other = to.look_up(parameter.name);
    if (!other) continue;
    if (source.weights().dtype() == DType::bf16) {
      copy_box<bf16_t>(parameter, source.weights(), *other, weights);
      copy_box<int16_t>(parameter, source.remainder(), *other, remainder);
    } else {
      copy_box<float>(parameter, source.weights(), *other, weights);
    }
    if (source.moment1().empty() || moment1.empty()) continue;
    copy_box<float>(parameter, source.moment1(), *other, moment1);
    copy_box<float>(parameter, source.moment2(), *other, moment2);
  }
}

}  // namespace trireme
