#pragma once
// Where the time of some training steps goes: a table per operator, and a trace for chrome://tracing or
// ui.perfetto.dev.

#include <string>
#include <vector>

#include "base/time.h"
#include "ops/profile.h"

namespace trireme {

/// The rates that operators are compared with.
struct ProfileCeilings {
  double flops_per_s = 0;  ///< a large GEMM with the same threads
  double bytes_per_s = 0;  ///< a plain copy, read + written
};

class StepProfile final : public OpRecorder {
 public:
  /// Records `steps` steps, beginning with the second step of this start: the first one warms up.
  explicit StepProfile(int64_t steps) : left_(steps) {}

  void begin_step();
  /// True once, after the last step to record: then table() and write_trace() have all of them.
  /// exposed: seconds of the step spent waiting for the gradient exchange.
  bool end_step(double exposed);

  /// One aligned line per operator, the slowest first.
  std::string table(const ProfileCeilings& ceilings) const;
  /// Throws Error::io.
  void write_trace(const std::string& path, int rank) const;

  bool recording() const override { return recording_; }
  double now() const override { return seconds_since(start_); }
  void add(OpCall call) override { calls_.push_back(std::move(call)); }

 private:
  struct Step {
    double start = 0, seconds = 0, exposed = 0;
  };
  Clock::time_point start_ = Clock::now();
  int64_t left_;
  bool warm_ = false, recording_ = false;
  std::vector<OpCall> calls_;
  std::vector<Step> steps_;
};

/// Bytes per second that a copy reads and writes. About 0.2 s.
double measure_copy_rate(Ops& ops, int threads);

}  // namespace trireme
