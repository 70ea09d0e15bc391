#pragma once
// Which weights of a run are known to be good. Weights that have exploded show it only in the steps after them, whose
// loss or gradients are not finite: until such a streak is over nothing is saved, and until a good step has followed a
// snapshot nothing older is deleted for it. Pure numbers, the same on every rank.

#include <cstdint>

#include "train/step.h"

namespace trireme {

class WeightsWatch {
 public:
  /// A step was made on the weights that stood after `step` steps.
  void saw_step(int64_t step, const StepResult& result);
  /// An evaluation of the weights as they stand gave this loss. A finite one ends a streak of spikes that were skipped,
  /// and proves no more: exploded weights may have a finite loss and no finite gradients.
  void saw_evaluation(double loss);

  /// The last step was skipped, and nothing since says that the weights are good.
  bool in_streak() const { return last_ != Last::good; }
  /// The newest step whose weights gave a good step; -1: none yet.
  int64_t good_step() const { return good_step_; }

 private:
  enum class Last { good, spike, not_finite };
  Last last_ = Last::good;
  int64_t good_step_ = -1;
};

}  // namespace trireme
