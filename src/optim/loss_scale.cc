#include "optim/loss_scale.h"

#include <algorithm>

namespace trireme {
namespace {

constexpr int64_t kFactor = 2;

Overflow shrink_by_deepspeed(LossScale& state, const LossScaleOptions& options) {
  if (state.hysteresis > 1) {
    --state.hysteresis;
    return Overflow::skipped;
  }
  if (state.scale <= options.minimum) return Overflow::at_minimum;
  state.scale = std::max(state.scale / kFactor, options.minimum);
  return Overflow::skipped;
}

void shrink_by_metaseq(LossScale& state, const LossScaleOptions& options) {
  state.window = std::max<int64_t>(state.window / kFactor, 1);
  if (state.scale / kFactor >= options.minimum) state.scale /= kFactor;
}

}  // namespace

std::optional<LossScale> start_loss_scale(const std::optional<LossScaleOptions>& options,
                                          const std::optional<LossScale>& stored) {
  if (!options) return std::nullopt;
  LossScale state = stored.value_or(
      LossScale{.scale = options->initial, .window = options->window, .hysteresis = options->hysteresis});
  if (options->fixed > 0) state.scale = options->fixed;
  return state;
}

void count_clean_step(LossScale& state, const LossScaleOptions& options) {
  ++state.clean;
  state.in_a_row = 0;
  if (options.fixed > 0) return;
  const bool deepspeed = options.rule == LossScaleRule::deepspeed;
  const int64_t window = deepspeed ? options.window : state.window;
  const bool grows = state.clean % window == 0;
  if (deepspeed && (grows || options.refills_always)) state.hysteresis = options.hysteresis;
  if (!grows) return;
  state.scale *= kFactor;
  if (!deepspeed) state.window *= kFactor;
}

Overflow count_overflow(LossScale& state, const LossScaleOptions& options) {
  state.clean = 0;
  ++state.in_a_row;
  Overflow verdict = Overflow::skipped;
  if (options.fixed <= 0) {
    if (options.rule == LossScaleRule::deepspeed)
      verdict = shrink_by_deepspeed(state, options);
    else
      shrink_by_metaseq(state, options);
  }
  if (verdict == Overflow::skipped && options.most_overflows > 0 && state.in_a_row >= options.most_overflows)
    return Overflow::too_many;
  return verdict;
}

}  // namespace trireme
