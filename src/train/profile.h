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
  /// Records `steps` steps, beginning with the second step of this start: the first one warms up. stream: of the
  /// operators.
  StepProfile(int64_t steps, DeviceStream& stream) : stream_(stream), left_(steps) {}

  void begin_step();
  /// True once, after the last step to record: then table() and write_trace() have all of them.
  /// exposed: seconds of the step spent waiting for the gradient exchange.
  bool end_step(double exposed);

  /// One aligned line per operator, the slowest first.
  std::string table(const ProfileCeilings& ceilings) const;
  /// Throws Error::io.
  void write_trace(const std::string& path, int rank) const;

  bool recording() const override { return recording_; }
  Event mark() override { return stream_.record_time(); }
  void add(OpCall call) override { calls_.push_back(std::move(call)); }

 private:
  struct Step {
    double start = 0, seconds = 0, exposed = 0;  ///< start: seconds since this object was made
  };
  struct TimedCall {
    std::string op;
    double start = 0, seconds = 0, flops = 0, bytes = 0;
  };

  DeviceStream& stream_;
  Clock::time_point start_ = Clock::now();
  int64_t left_;
  bool warm_ = false, recording_ = false;
  Event step_start_;
  std::vector<OpCall> calls_;  ///< of the step that is recorded
  std::vector<TimedCall> timed_;
  std::vector<Step> steps_;
};

/// Bytes per second that a copy reads and writes. About 0.2 s.
double measure_copy_rate(Ops& ops, int threads);

}  // namespace trireme
