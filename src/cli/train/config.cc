#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <optional>
#include <string_view>

#include "base/count.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/plan_text.h"
#include "config/document.h"
#include "plan/node_type.h"
#include "train/start/rank_table.h"
#include "train/start/resolve.h"
#include "train/start/run_forecast.h"

namespace trireme {
namespace {

constexpr const char* kUsage =
    "trireme config show FILES... [-d FOLDER] [--key value ...] [--dialect NAME] [--ranks N [--hosts N] "
    "[--node TYPE]] [--verbose]\n"
    "trireme config options\n"
    "trireme config wizard [--answer VALUE ...] [--output FILE]";

/// Full nodes for ranks of which each has a GPU; fewer ranks than a node has GPUs are on one.
int nodes_for(int ranks, const NodeType& type) {
  const int gpus = static_cast<int>(type.gpus);
  require(ranks <= gpus || ranks % gpus == 0, ErrorKind::usage,
          "--ranks {} do not fill nodes of {}; add --hosts N to spread them evenly", ranks, count_text(gpus, "GPU"));
  return std::max(1, ranks / gpus);
}

/// The forecast as lines of YAML comments.
std::string forecast_comments(const LoadedConfig& loaded, const NodeType& type, int ranks, int nodes) {
  const PlannedNodes on{type, nodes, ranks / nodes};
  const RunForecast forecast = forecast_run(loaded, on);
  std::string text = to_text(forecast);
  if (!forecast.fits()) {
    constexpr size_t kShown = 5;
    const std::vector<RunForecast> best = best_layouts(loaded, on, PlanGoal::time, kShown);
    text += fits_text(forecast, best, remedies_for(loaded, forecast)) + "\n";
    if (!best.empty()) text += to_text(best, PlanGoal::time);
  }
  std::string comments;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    comments += "# " + text.substr(at, end - at + 1);
    at = end + 1;
  }
  return comments;
}

int config_show(CommandLine line) {
  Flags app(std::move(line), "trireme config show",
            "Prints the configuration from files and flags as native YAML, and where each value came from.");
  ConfigWords words;
  int ranks = 0, hosts = 0;
  std::string node;
  constexpr int kMost = 1 << 20;
  app.set_usage(kUsage);
  app.add_configuration(words, OptionsInHelp::none);
  app.add("--ranks", ranks, "also the mesh and the batch for N ranks, and what each rank holds")
      .in_range(1, kMost)
      .needs("a number");
  app.add("--hosts", hosts, "hosts of the ranks (default: one rank per host)").in_range(1, kMost).needs("a number");
  app.add("--node", node, "also memory, time and cost on nodes of this type")
      .needs("a type; `trireme plan --node-types` lists them");
  if (const auto code = app.parse()) return *code;
  require(node.empty() || ranks > 0, ErrorKind::usage, "--node needs --ranks; add the number of ranks");
  require(hosts == 0 || ranks > 0, ErrorKind::usage, "--hosts needs --ranks; add the number of ranks");
  LoadedConfig loaded = load_config(words.files, words.flags, words.dialect);
  resolve_model(loaded);
  require_mesh(loaded);
  if (ranks > 0) {
    require_layout(loaded);
    resolve_for_ranks(loaded, ranks);
  }
  if (words.verbose) std::ranges::move(loaded.details, std::back_inserter(loaded.notes));
  std::string table = trained_comment(loaded);
  const NodeType type = node.empty() ? NodeType() : find_node_type(node);
  if (type.gpus > 0 && hosts == 0) hosts = nodes_for(ranks, type);
  if (ranks > 0)
    table += rank_table(loaded, ranks, hosts, type.gpus > 0 ? PlannedDevices::gpus : planned_devices(loaded.config));
  if (!node.empty()) table += forecast_comments(loaded, type, ranks, hosts > 0 ? hosts : ranks);
  fmt::print("{}{}", to_yaml(loaded), table);
  return 0;
}

int config_options(CommandLine line) {
  Flags app(std::move(line), "trireme config options",
            "Prints docs/options.md: every option, and the keys of every dialect.");
  app.set_usage(kUsage);
  if (const auto code = app.parse()) return *code;
  fmt::print("{}", options_markdown());
  return 0;
}

}  // namespace

int run_config(CommandLine line) {
  Flags app(std::move(line), "trireme config",
            "Prints the configuration from files and flags, or the list of options.");
  app.set_usage(kUsage);
  app.set_footer(
      "show     prints the configuration from these files and flags as native YAML, and where each value came from;\n"
      "         --ranks N: also the mesh and the batch for N ranks and what each rank holds, on --hosts N\n"
      "         with the same number of ranks each (default: one rank per host); --node: also memory, time and\n"
      "         cost on nodes of this type, as `trireme plan` prints them; --verbose: also why keys have no effect\n"
      "options  prints docs/options.md: every option, and the keys of every dialect\n"
      "wizard   asks the questions of `accelerate config` and writes a file for `trireme launch --config-file`");
  app.add_command("show", config_show);
  app.add_command("options", config_options);
  app.add_command("wizard", config_wizard);
  const std::string action = app.words().empty() ? "" : app.words()[0];
  if (action.starts_with("--") && action != "--help") return config_wizard(app.words());  // as `accelerate config`
  if (const auto code = app.answer()) return *code;
  if (action == "default")  // accelerate's
    fail(ErrorKind::usage, "trireme config default: instead: `trireme config wizard --defaults`");
  fail(ErrorKind::usage, "trireme config {}: expected show, options or wizard; `trireme config --help` explains them",
       action.empty() ? "needs an action" : action);
}

}  // namespace trireme
