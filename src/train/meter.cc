#include "train/meter.h"

#include <limits>

#include "train/machine.h"

namespace trireme {

void StepMeter::add_step(double busy, double exposed) {
  busy_ += busy;
  exposed_ += exposed;
  ++steps_;
}

void StepMeter::add_result(double loss, bool skipped, bool finite) {
  skipped_ += skipped;
  not_finite_ += !finite;
  if (skipped) return;
  loss_ += loss;
  ++good_;
}

double StepMeter::fill(Metrics& metrics, double tokens_per_step, double samples_per_step) const {
  const double seconds = seconds_since(start_) - excluded_, steps = static_cast<double>(steps_);
  metrics.tokens_per_second = steps * tokens_per_step / seconds;
  metrics.samples_per_second = steps * samples_per_step / seconds;
  metrics.updates_per_second = steps / seconds;
  metrics.interval_loss = good_ > 0 ? loss_ / static_cast<double>(good_) : std::numeric_limits<double>::quiet_NaN();
  metrics.interval_skipped = skipped_;
  metrics.interval_not_finite = not_finite_;
  metrics.ms_per_step = 1e3 * seconds / steps;
  metrics.exposed_share = exposed_ / seconds;
  metrics.memory_bytes = resident_memory();
  return steps / seconds;
}

}  // namespace trireme
