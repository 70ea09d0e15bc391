#pragma once
// Finds the rank that the others wait for.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "comm/scalars.h"

namespace trireme {

struct Straggler {
  int rank = 0;
  double busy = 0;    ///< seconds of its own work per step
  double others = 0;  ///< median of the other ranks' seconds
  double lost = 0;    ///< share of the job's time in which the others wait for it: 1 - others / busy
};

class StragglerWatch {
 public:
  /// busy: each rank's seconds of work per step, over an interval of `steps`; at least two ranks.
  /// A rank is reported once: when it has needed 1.5 times the median of the others in two intervals in a row.
  /// Intervals in which the slowest rank worked for less than a second are too short and are skipped. Depends only on
  /// what every rank knows, so that all decide the same.
  std::optional<Straggler> find(std::span<const double> busy, int64_t steps);
  /// Collective. Judges an interval, as find() does, and warns of the slow rank.
  void warn(Scalars& scalars, std::string_view host, std::span<const double> busy, int64_t steps);

 private:
  int suspect_ = -1, reported_ = -1;
};

}  // namespace trireme
