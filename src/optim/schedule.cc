#include "optim/schedule.h"

#include <cmath>
#include <numbers>

namespace trireme {

double learning_rate(const Schedule& schedule, int64_t step) {
  const auto& [course, peak, minimum, warmup, decay, from_zero] = schedule;
  if (step < warmup) {
    return from_zero ? peak * static_cast<double>(step) / static_cast<double>(warmup)
                     : peak * static_cast<double>(step + 1) / static_cast<double>(warmup + 1);
  }
  if (course == RateCourse::constant) return peak;
  if (step >= decay) return minimum;
  const double done = static_cast<double>(step - warmup) / static_cast<double>(decay - warmup);
  if (course == RateCourse::linear) return minimum + (peak - minimum) * (1.0 - done);
  return minimum + 0.5 * (1.0 + std::cos(std::numbers::pi * done)) * (peak - minimum);
}

}  // namespace trireme
