#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trireme {
namespace {

double inverse_sqrt_rate(const RateSchedule& schedule, double step) {
  constexpr double kTimescale = 10000;  // the value of transformers without a warm-up
  const double timescale = schedule.timescale > 0      ? schedule.timescale
                           : schedule.warmup_steps > 0 ? schedule.warmup_steps
                                                       : kTimescale;
  const double shift = timescale - schedule.warmup_steps;
  return std::max(schedule.minimum, schedule.peak / std::sqrt((step + shift) / timescale));
}

double decayed_part(DecayShape shape, double done) {
  if (shape == DecayShape::linear) return 1.0 - done;
  return shape == DecayShape::sqrt ? 1.0 - std::sqrt(done) : 0.5 * (1.0 + std::cos(std::numbers::pi * done));
}

double stable_decay_rate(const RateSchedule& schedule, double step) {
  const auto end = static_cast<double>(schedule.decay_steps);
  const double length = schedule.decay_length > 0 ? static_cast<double>(schedule.decay_length) : std::ceil(end / 10);
  const double start = std::max(schedule.warmup_steps, end - length), range = schedule.peak - schedule.minimum;
  if (step < schedule.warmup_steps) return schedule.minimum + range * step / schedule.warmup_steps;
  if (step < start) return schedule.peak;
  if (step >= end) return schedule.minimum;
  return schedule.minimum + range * decayed_part(schedule.decay_shape, (step - start) / (end - start));
}

double nanogpt_rate(const RateSchedule& schedule, double step) {
  const auto& [course, peak, minimum, warmup, decay, from_zero, form, power, restarts, timescale, length, shape] =
      schedule;
  if (course == RateCourse::stable_decay && (from_zero || step >= warmup)) return stable_decay_rate(schedule, step);
  if (step < warmup) return from_zero ? peak * step / warmup : peak * (step + 1) / (warmup + 1);
  if (course == RateCourse::constant) return peak;
  if (course == RateCourse::inverse_sqrt) return inverse_sqrt_rate(schedule, step);
  if (step >= static_cast<double>(decay)) return minimum;
  const double done = (step - warmup) / (static_cast<double>(decay) - warmup);
  if (course == RateCourse::linear) return minimum + (peak - minimum) * (1.0 - done);
  if (course == RateCourse::polynomial) return minimum + (peak - minimum) * std::pow(1.0 - done, power);
  const double phase = course == RateCourse::cosine_with_restarts ? std::fmod(restarts * done, 1.0) : done;
  return minimum + 0.5 * (1.0 + std::cos(std::numbers::pi * phase)) * (peak - minimum);
}

/// In NeoX's order of operations, so that the rates are equal to the last bit.
double neox_rate(const RateSchedule& schedule, double step) {
  const double warmup = schedule.warmup_steps;
  if (warmup > 0 && step <= warmup) return schedule.peak * std::max(1.0, step) / warmup;
  const double length = static_cast<double>(schedule.decay_steps) - warmup, done = step - warmup;
  double rate = schedule.peak;
  if (schedule.course != RateCourse::constant && length <= 0) return schedule.minimum;
  if (schedule.course == RateCourse::linear) {
    rate = schedule.peak * (length - done) / length;
  } else if (schedule.course == RateCourse::cosine) {
    rate =
        schedule.minimum + (schedule.peak - schedule.minimum) / 2.0 * (std::cos(std::numbers::pi * done / length) + 1);
  } else if (schedule.course == RateCourse::exponential) {
    rate = schedule.peak * std::exp(-0.693 * done / length);
  }
  return std::max(rate, schedule.minimum);
}

}  // namespace

double learning_rate(const RateSchedule& schedule, int64_t step) {
  const auto at = static_cast<double>(step);
  return schedule.form == ScheduleForm::neox ? neox_rate(schedule, at) : nanogpt_rate(schedule, at);
}

}  // namespace trireme
