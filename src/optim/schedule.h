#pragma once
// The learning rate as a pure function of the step, so that a resumed run needs no state for it.

#include <cstdint>

#include "config/choices.h"

namespace trireme {

struct RateSchedule {
  RateCourse course = RateCourse::cosine;
  double peak = 6e-4;
  double minimum = 6e-5;         ///< rate at the end of the decay and after it
  double warmup_steps = 0;       ///< W
  int64_t decay_steps = 0;       ///< D: step at which the decay reaches the minimum
  bool warms_from_zero = false;  ///< nanogpt: the first step of a warm-up trains with rate 0
  ScheduleForm form = ScheduleForm::nanogpt;
  double power = 1;                             ///< of polynomial
  double restarts = 1;                          ///< of cosine_with_restarts
  double timescale = 0;                         ///< of inverse_sqrt; 0: W, or 10000 if W is 0
  int64_t decay_length = 0;                     ///< L of stable_decay; 0: D / 10, rounded up
  DecayShape decay_shape = DecayShape::cosine;  ///< of stable_decay

  /// What learning_rate() counts: applied updates, or steps including skipped ones.
  bool counts_updates() const { return form == ScheduleForm::neox; }
};

/// Learning rate of step s, counted from 0. Form nanogpt:
///   s < W:    peak (s + 1) / (W + 1), or peak s / W from zero
///   constant: peak
///   s >= D:   minimum
///   linear:   minimum + (peak - minimum) (D - s) / (D - W)
///   cosine:   minimum + (peak - minimum) (1 + cos(pi (s - W) / (D - W))) / 2
///   cosine_with_restarts: the same of the fraction of restarts (s - W) / (D - W)
///   polynomial: minimum + (peak - minimum) ((D - s) / (D - W))^power
/// except inverse_sqrt, which has no end: from W on peak / sqrt((s - W + timescale) / timescale), never below the
/// minimum, and
///   stable_decay: peak until D - L, then the minimum + (peak - minimum) times, of t = (s - D + L) / L,
///                 (1 + cos(pi t)) / 2 (cosine), 1 - t (linear) or 1 - sqrt(t) (sqrt); a warm-up from zero begins at
///                 the minimum
/// Source: the schedule of nanoGPT; Loshchilov & Hutter 2017, eq. 5; the last four as transformers has them.
///
/// Form neox, with W of any fraction:
///   0 < W, s <= W: peak max(1, s) / W, so that the first two are equal; with W < 1 the first is above the peak
///   constant:      peak
///   linear:        peak (D - s) / (D - W)
///   cosine:        minimum + (peak - minimum) (1 + cos(pi (s - W) / (D - W))) / 2, which rises again after D
///   exponential:   peak exp(-0.693 (s - W) / (D - W)), half the peak at D
/// and, after the warm-up, never below the minimum; a decay that ends with the warm-up goes straight to the minimum.
/// Source: AnnealingLR of GPT-NeoX.
double learning_rate(const RateSchedule& schedule, int64_t step);

}  // namespace trireme
