#include "cli/cluster/cluster_forecast.h"

#include <algorithm>

#include "base/error.h"
#include "cli/plan_text.h"
#include "cloud/node_types.h"
#include "config/load.h"
#include "train/start/resolve.h"
#include "train/start/run_forecast.h"

namespace trireme {
namespace {

NodeType type_of(const cloud::ClusterOptions& options, const std::string& node) {
  if (!node.empty()) return find_node_type(node);
  const std::string name = planned_type(options);
  const std::span<const NodeType> known = node_types();
  const auto found = std::ranges::find_if(known, [&](const NodeType& type) { return type.name == name; });
  const std::string size = cloud::type_of_nodes(options);
  require(
      found != known.end(), ErrorKind::config,
      "cannot plan the run: the rates of {} are unknown; describe the machine in a .yaml file (docs/planner.md) and "
      "add --node FILE.yaml, or leave out --run",
      size.empty() ? "your own machines" : size);
  return *found;
}

}  // namespace

std::string planned_type(const cloud::ClusterOptions& options) {
  return cloud::planner_name(options.cluster.provider, cloud::type_of_nodes(options));
}

std::string cluster_forecast(const cloud::ClusterOptions& options, const std::vector<std::string>& files,
                             const std::string& node) {
  const ConfigWords words = split_words(files);
  LoadedConfig loaded = load_config(words.files, words.flags, words.dialect);
  resolve_model(loaded);
  const NodeType type = type_of(options, node);
  const PlannedNodes on{type, options.cluster.nodes, std::max<int64_t>(1, type.gpus)};
  const RunForecast forecast = forecast_run(loaded, on);
  std::string text = to_text(forecast);
  if (forecast.fits()) return text;
  constexpr size_t kShown = 5;
  const std::vector<RunForecast> best = best_layouts(loaded, on, PlanGoal::time, kShown);
  text += fits_text(forecast, best, remedies_for(loaded, forecast)) + "\n";
  return best.empty() ? text : text + to_text(best, PlanGoal::time);
}

}  // namespace trireme
