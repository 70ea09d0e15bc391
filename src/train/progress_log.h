#pragma once
// Logs the progress of long work that has no other log lines.

#include <cstdint>

#include "base/log.h"
#include "base/time.h"

namespace trireme {

class ProgressLog {
 public:
  /// `what` ("step 1") and `parts`, the name of its parts, must outlive the object.
  explicit ProgressLog(const char* what, const char* parts = "micro-batches") : what_(what), parts_(parts) {}
  /// Call it for each part: logs the progress after 15 seconds (with log.seconds: 30 after the last line of earlier
  /// steps), then every 30 seconds.
  void report(int64_t done, int64_t all) {
    if (seconds_since(start_) < next_) return;
    next_ = seconds_since(start_) + 30;
    log::info("{}: {} of {} {} done after {:.0f} s", what_, done, all, parts_, seconds_since(start_));
  }

 private:
  const char *what_, *parts_;
  Clock::time_point start_ = Clock::now();
  double next_ = 15;
};

}  // namespace trireme
