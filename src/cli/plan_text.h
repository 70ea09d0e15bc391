#pragma once
// A run's forecast as text and as JSON.

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "train/start/run_forecast.h"

namespace trireme {

std::string to_text(const RunForecast& forecast);
/// A table, best first, with the reasons, and the best one's lines of YAML.
std::string to_text(const std::vector<RunForecast>& best, PlanGoal goal);
/// "does not fit: ...": what a rank needs and may have, what of remedies_for() helps, and whether some of `best` fit.
std::string fits_text(const RunForecast& forecast, const std::vector<RunForecast>& best,
                      const std::vector<Remedy>& remedies);
/// Why there is no layout to choose for so many sequences. nodes: of nodes_that_share_the_batch().
std::string batch_text(const PlannedNodes& on, int64_t sequences, const std::vector<int64_t>& nodes);
Json to_json(const RunForecast& forecast);

/// What `--simulate` says of the forecast's step.
std::string to_text(const SimulatedStep& step, const RunForecast& forecast);
Json to_json(const SimulatedStep& step);
/// For chrome://tracing: a row per tensor group with its computing, its messages and its exchange.
Json trace_json(const SimulatedStep& step);
/// save, restart: seconds.
std::string to_text(const FailurePlan& plan, const RunForecast& forecast);

}  // namespace trireme
