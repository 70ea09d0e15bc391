#pragma once
// A line now and then from work that takes long before it has anything else to say.

#include <cstdint>

#include "base/log.h"
#include "base/time.h"

namespace trireme {

class SignOfLife {
 public:
  /// `what` ("step 1") outlives the object.
  explicit SignOfLife(const char* what) : what_(what) {}
  /// To be called for each part: says how far the work is after 20 seconds, then after twice as long each time.
  void tell(int64_t done, int64_t all) {
    if (seconds_since(start_) < next_) return;
    next_ *= 2;
    log::info("{}: {} of {} micro-batches done after {:.0f} s", what_, done, all, seconds_since(start_));
  }

 private:
  const char* what_;
  Clock::time_point start_ = Clock::now();
  double next_ = 20;
};

}  // namespace trireme
