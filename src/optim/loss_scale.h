#pragma once
// The factor of the loss that keeps small gradients of f16 activations from becoming zero: a state machine that the
// verdict of each step moves. It depends on nothing else, so that it is the same on every rank.

#include <cstdint>
#include <optional>

#include "config/choices.h"

namespace trireme {

struct LossScaleOptions {
  LossScaleRule rule = LossScaleRule::deepspeed;
  double fixed = 0;             ///< above 0: the scale of every step, which no overflow changes
  double initial = 65536;       ///< scale of the first step
  int64_t window = 1000;        ///< steps without an overflow until the scale doubles; metaseq: the first such number
  int64_t hysteresis = 2;       ///< deepspeed: the scale is halved at this overflow since the last refill
  bool refills_always = false;  ///< deepspeed: every step without an overflow refills the hysteresis, not only a growth
  double minimum = 1;
  int64_t most_overflows = 50;  ///< a run ends after this many in a row; 0: never
  bool operator==(const LossScaleOptions&) const = default;
};

/// What a checkpoint keeps of it.
struct LossScale {
  double scale = 1;
  int64_t window = 0;      ///< metaseq: the current one
  int64_t clean = 0;       ///< steps since the last overflow
  int64_t hysteresis = 1;  ///< deepspeed: the scale is halved at this overflow from here on
  int64_t in_a_row = 0;    ///< overflows since the last step without one
  bool operator==(const LossScale&) const = default;
};

/// The state at a run's start. stored: that of the snapshot that it resumes, if it has one.
std::optional<LossScale> start_loss_scale(const std::optional<LossScaleOptions>& options,
                                          const std::optional<LossScale>& stored = std::nullopt);

/// What an overflow means for the run.
enum class Overflow : uint8_t {
  skipped,     ///< the step is skipped, the run resumes with the next
  at_minimum,  ///< deepspeed: the scale cannot become smaller, so the run ends
  too_many,    ///< in a row, so the run ends
};

/// After a step whose gradients were finite.
/// deepspeed: after every `window`-th step without an overflow in between, the scale doubles and the hysteresis is
/// refilled. metaseq: likewise, and the window doubles, too, while the count since the last overflow continues.
/// Source: DynamicLossScaler of DeepSpeed and of metaseq.
void count_clean_step(LossScale& state, const LossScaleOptions& options);

/// After a step whose gradients were not finite.
/// deepspeed: the last overflow of the hysteresis and each one after it until a refill halve the scale, down to the
/// minimum. metaseq: each halves the scale and the window; a scale below the minimum is not taken.
Overflow count_overflow(LossScale& state, const LossScaleOptions& options);

}  // namespace trireme
