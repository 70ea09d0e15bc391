#pragma once
// A line now and then from work that takes long before it has anything else to say.

#include <cstdint>

#include "base/log.h"
#include "base/time.h"

namespace trireme {

class SignOfLife {
 public:
  /// `what` ("step 1") and what its parts are called outlive the object.
  explicit SignOfLife(const char* what, const char* parts = "micro-batches") : what_(what), parts_(parts) {}
  /// To be called for each part: says how far the work is after 15 seconds, with log.seconds 30 after the last line of
  /// the steps before, then every 30.
  void tell(int64_t done, int64_t all) {
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
