#pragma once
// What the steps between two log lines took.

#include "base/time.h"
#include "report/metrics.h"

namespace trireme {

class StepMeter {
 public:
  /// One more step: busy: seconds in which this rank waited for no other; exposed: seconds that it waited for the
  /// exchange of gradients.
  void add_step(double busy, double exposed);
  /// What became of the step.
  void add_result(double loss, bool skipped, bool finite);
  /// Seconds that went to an evaluation or a snapshot.
  void add_aside(double seconds) { aside_ += seconds; }
  /// Fills what `metrics` says of time, but for what depends on the arithmetic, of the interval's losses and of this
  /// process' memory, from the tokens and samples of one step; gives the steps per second.
  double fill(Metrics& metrics, double tokens_per_step, double samples_per_step) const;
  void restart() { *this = {}; }

  int64_t steps() const { return steps_; }
  double busy_per_step() const { return busy_ / static_cast<double>(steps_); }

 private:
  Clock::time_point start_ = Clock::now();
  double aside_ = 0, exposed_ = 0, busy_ = 0, loss_ = 0;
  int64_t steps_ = 0, good_ = 0, skipped_ = 0, not_finite_ = 0;
};

/// Adds the seconds of its life to a meter as time aside.
class Aside {
 public:
  explicit Aside(StepMeter& meter) : meter_(meter) {}
  ~Aside() { meter_.add_aside(seconds_since(start_)); }
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;
  double seconds() const { return seconds_since(start_); }

 private:
  StepMeter& meter_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace trireme
