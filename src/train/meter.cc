#include "train/meter.h"

#include "train/machine.h"

namespace trireme {

void StepMeter::add_step(double busy, double exposed) {
  busy_ += busy;
  exposed_ += exposed;
  ++steps_;
}

double StepMeter::fill(Metrics& metrics, double tokens_per_step) const {
  const double seconds = seconds_since(start_) - aside_, steps = static_cast<double>(steps_);
  metrics.tokens_per_second = steps * tokens_per_step / seconds;
  metrics.ms_per_step = 1e3 * seconds / steps;
  metrics.exposed_share = exposed_ / seconds;
  metrics.memory_bytes = resident_memory();
  return steps / seconds;
}

}  // namespace trireme
