#pragma once
// The times of the steps between two log lines.

#include "base/time.h"
#include "report/metrics.h"

namespace trireme {

class StepMeter {
 public:
  /// Adds a step. busy: seconds in which this rank did not wait for another; exposed: seconds in which it waited for
  /// the exchange of gradients.
  void add_step(double busy, double exposed);
  /// Adds the result of the step.
  void add_result(double loss, bool skipped, bool finite);
  /// Adds seconds of an evaluation or a snapshot.
  void add_excluded(double seconds) { excluded_ += seconds; }
  /// Fills the times (except those that depend on FLOPs), losses and memory of `metrics` for the interval, from the
  /// tokens and samples of one step; returns the steps per second.
  double fill(Metrics& metrics, double tokens_per_step, double samples_per_step) const;
  void restart() { *this = {}; }

  int64_t steps() const { return steps_; }
  double busy_per_step() const { return busy_ / static_cast<double>(steps_); }

 private:
  Clock::time_point start_ = Clock::now();
  double excluded_ = 0, exposed_ = 0, busy_ = 0, loss_ = 0;
  int64_t steps_ = 0, good_ = 0, skipped_ = 0, not_finite_ = 0;
};

/// Adds the seconds of its lifetime to a meter as time outside of steps.
class ExcludedTime {
 public:
  explicit ExcludedTime(StepMeter& meter) : meter_(meter) {}
  ~ExcludedTime() { meter_.add_excluded(seconds_since(start_)); }
  ExcludedTime(const ExcludedTime&) = delete;
  ExcludedTime& operator=(const ExcludedTime&) = delete;
  double seconds() const { return seconds_since(start_); }

 private:
  StepMeter& meter_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace trireme
