#pragma once
// Which weights of a run are known to be good. Exploded weights show only in the steps after them, whose loss or
// gradients are not finite: during such a streak nothing is saved, and older snapshots are kept until a good step has
// followed a new one. Pure functions, the same on every rank.

#include <cstdint>

#include "train/guard/skips.h"

namespace trireme {

class WeightsWatch {
 public:
  /// A step was computed with the weights that the run had after `step` steps. An overflow in f16 says nothing about
  /// them.
  void record_step(int64_t step, const StepResult& result);
  /// An evaluation of the current weights gave this loss. A finite loss ends a streak of skipped spikes, but proves
  /// nothing else: exploded weights may have a finite loss but no finite gradients.
  void record_evaluation(double loss);

  /// The weights are again those of a snapshot, none of which is saved during a streak.
  void record_roll_back() { last_ = Last::good; }

  /// The last step was skipped, and nothing since has shown that the weights are good.
  bool in_streak() const { return last_ != Last::good; }
  /// The newest step whose weights gave a good step; -1: none yet.
  int64_t good_step() const { return good_step_; }

 private:
  enum class Last { good, spike, not_finite };
  Last last_ = Last::good;
  int64_t good_step_ = -1;
};

}  // namespace trireme
