#include "train/guard/weights_watch.h"

#include <cmath>

namespace trireme {

void WeightsWatch::record_step(int64_t step, const StepResult& result) {
  if (result.overflow) return;
  last_ = !result.finite ? Last::not_finite : result.skipped ? Last::spike : Last::good;
  if (last_ == Last::good) good_step_ = step;
}

void WeightsWatch::record_evaluation(double loss) {
  if (!std::isfinite(loss)) {
    last_ = Last::not_finite;
  } else if (last_ == Last::spike) {
    last_ = Last::good;
  }
}

}  // namespace trireme
