#include "train/start/resume_changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "base/option_name.h"
#include "config/schema.h"
#include "train/plan.h"

namespace trireme {
namespace {

/// Whether a resume compares it and refuses a difference, or has its own warning.
bool is_compared(const Option& option) {
  constexpr std::string_view kGroups[] = {"data", "dpo", "batch", "train"};
  if (option.group == "model") return option.name.find("dropout") == std::string::npos;
  if (option.group == "lora") return option.name != "lora.dropout";
  return option.name == "run.seed" || std::ranges::find(kGroups, option.group) != std::end(kGroups);
}

/// -1 of one of the two dropouts that follow model.dropout: the value that they have then, as snapshots record it.
Value followed(const Config& config, const Option& option) {
  const Value value = get(config, option);
  const bool follows = option.name == "model.embedding-dropout" || option.name == "model.attention-dropout";
  return follows && value == Value(config.model.dropout) ? Value(-1.0) : value;
}

std::string shown(const Value& value) {
  const std::string text = to_text(value);
  return text.empty() ? "nothing" : text;
}

/// Steps at whose end the rate has fallen; 0: it does not fall.
int64_t end_of_decay(const Config& config) {
  return config.optim.schedule == RateCourse::constant || config.optim.schedule == RateCourse::inverse_sqrt
             ? 0
             : schedule_of(config).decay_steps;
}

}  // namespace

std::vector<std::string> changed_options(const LoadedConfig& now, const Config& then) {
  std::vector<std::string> changes;
  for (const Option& option : schema().options()) {
    if (!changes_results(option) || is_compared(option)) continue;
    const Value before = followed(then, option), after = followed(now.config, option);
    if (before == after) continue;
    // What follows from run.steps is said of run.steps.
    const bool follows = option.name == "optim.decay-steps" && then.optim.decay_steps == then.run.steps &&
                         now.config.optim.decay_steps == now.config.run.steps;
    if (follows) continue;
    const auto origin = now.origins.find(option.name);
    changes.push_back(fmt::format("{} changes with this start from {} to {} ({})", option_name(option.name),
                                  shown(before), shown(after),
                                  origin == now.origins.end() ? "default" : origin->second.text()));
  }
  return changes;
}

std::optional<std::string> changed_decay(const Config& now, const Config& then, int64_t step) {
  const int64_t end = end_of_decay(now), end_then = end_of_decay(then);
  if (end == 0 || end_then == 0 || end == end_then) return {};
  Config kept = now;
  kept.optim.decay_steps = end_then;
  const double rate = learning_rate(schedule_of(now), step), rate_kept = learning_rate(schedule_of(kept), step);
  std::string text =
      fmt::format("the decay of the learning rate ends at step {} instead of {}, so step {} trains with {:.3g}", end,
                  end_then, step + 1, rate);
  text += rate == rate_kept ? "; the rates of later steps change" : fmt::format(" instead of {:.3g}", rate_kept);
  if (rate > rate_kept && step >= end_then) text += ": a rate that had fallen rises again";
  if (now.optim.decay_steps == 0)  // it follows run.steps
    text += fmt::format("; {} {} keeps the snapshot's schedule", option_name("--optim.decay-steps"), end_then);
  return text;
}

void warn_of_changes(const RunPlan& plan) {
  if (!plan.resume || !plan.trains || plan.resume->origin != CheckpointOrigin::trireme) return;
  for (const std::string& change : changed_options(plan.loaded, plan.resumed))
    log::write_once(log::Level::warning, change);
  const RunCounters& progress = plan.resume->facts.progress;
  const bool updates = schedule_of(plan.config()).counts_updates();
  const int64_t step = updates ? progress.updates : progress.scheduled_steps();
  if (const auto decay = changed_decay(plan.config(), plan.resumed, step)) log::write_once(log::Level::warning, *decay);
}

}  // namespace trireme
