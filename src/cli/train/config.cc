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
#include "cli/train/config_shape.h"
#include "cli/train/config_wizard.h"
#include "config/document.h"
#include "config/flag_word.h"
#include "plan/node_type.h"
#include "train/start/rank_table.h"
#include "train/start/resolve.h"
#include "train/start/run_forecast.h"

namespace trireme {
namespace {

constexpr const char* kUsage =
    "usage: trireme config show FILES... [-d FOLDER] [--key value ...] [--dialect NAME] [--ranks N [--hosts N] "
    "[--node TYPE]] "
    "[--verbose]\n"
    "       trireme config options\n"
    "       trireme config wizard [--answer VALUE ...] [--output FILE]\n\n"
    "show     prints the configuration from these files and flags as native YAML, and where each value came "
    "from;\n"
    "         --ranks N: also the mesh and the batch for N ranks and what each rank holds, on --hosts N\n         with "
    "the same number of ranks each (default: one rank per host); --node: also memory, time and\n         cost on nodes "
    "of this type, as `trireme plan` "
    "prints them; --verbose: also why keys have no effect\n"
    "options  prints docs/options.md: every option, and the keys of every dialect\n"
    "wizard   asks the questions of `accelerate config` and writes a file for `trireme launch --config-file`\n";

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

/// The number after `--ranks` or a similar flag, which is removed from the words; 0: not given.
int take_number(std::string_view flag, std::vector<std::string>& words) {
  const std::optional<std::string> text = take_flag({flag}, "a number", words);
  if (!text) return 0;
  const Value value = resolve_plain(*text);
  const auto* number = std::get_if<int64_t>(&value);
  constexpr int64_t kMost = 1 << 20;
  require(number && *number >= 1 && *number <= kMost, ErrorKind::usage,
          "{} is {}, expected a whole number from 1 to {}", flag, *text, kMost);
  return static_cast<int>(*number);
}

void show(std::vector<std::string> words) {
  const int ranks = take_number("--ranks", words);
  int hosts = take_number("--hosts", words);
  const std::string node = take_flag({"--node"}, "a type; `trireme plan --node-types` lists them", words).value_or("");
  require(node.empty() || ranks > 0, ErrorKind::usage, "--node needs --ranks; add the number of ranks");
  require(hosts == 0 || ranks > 0, ErrorKind::usage, "--hosts needs --ranks; add the number of ranks");
  require_spelling(words, {"--ranks", "--hosts", "--node"});
  const ConfigWords split = split_words(words);
  LoadedConfig loaded = load_config(split.files, split.flags, split.dialect);
  resolve_model(loaded);
  require_mesh(loaded);
  if (ranks > 0) {
    require_layout(loaded);
    resolve_for_ranks(loaded, ranks);
  }
  if (split.verbose) std::ranges::move(loaded.details, std::back_inserter(loaded.notes));
  std::string table = trained_comment(loaded);
  const NodeType type = node.empty() ? NodeType() : find_node_type(node);
  if (type.gpus > 0 && hosts == 0) hosts = nodes_for(ranks, type);
  if (ranks > 0)
    table += rank_table(loaded, ranks, hosts, type.gpus > 0 ? PlannedDevices::gpus : planned_devices(loaded.config));
  if (!node.empty()) table += forecast_comments(loaded, type, ranks, hosts > 0 ? hosts : ranks);
  fmt::print("{}{}", to_yaml(loaded), table);
}

}  // namespace

CommandShape config_shape() {
  CommandShape show{.name = "show",
                    .purpose =
                        "Prints the configuration from files and flags as native YAML, and where each value "
                        "came from.",
                    .flags = file_flags(),
                    .groups = option_groups()};
  show.flags.push_back({.names = {"--ranks"},
                        .help = "also the mesh and the batch for N ranks, and what each rank holds",
                        .kind = ValueKind::number});
  show.flags.push_back(
      {.names = {"--hosts"}, .help = "hosts of the ranks (default: one rank per host)", .kind = ValueKind::number});
  show.flags.push_back({.names = {"--node"}, .help = "also memory, time and cost on nodes of this type"});
  CommandShape wizard = shape_of(config_wizard);
  wizard.name = "wizard";
  return {.name = "config",
          .purpose = "Prints the configuration from files and flags, or the list of options.",
          .actions = {
              std::move(show),
              {.name = "options", .purpose = "Prints docs/options.md: every option, and the keys of every dialect."},
              std::move(wizard)}};
}

int run_config(std::vector<std::string> arguments) {
  const std::string action = arguments.empty() ? "" : arguments[0];
  if (action == "default")  // accelerate's
    fail(ErrorKind::usage, "trireme config default: instead: `trireme config wizard --defaults`");
  if (action != "wizard" && asks_help(arguments)) {  // the wizard has its own flags
    fmt::print("{}", kUsage);
    return 0;
  }
  if (action == "show") {
    show({arguments.begin() + 1, arguments.end()});
    return 0;
  }
  if (action == "options") {
    require(arguments.size() == 1, ErrorKind::usage, "trireme config options takes no arguments, found \"{}\"",
            arguments[1]);
    fmt::print("{}", options_markdown());
    return 0;
  }
  if (action.starts_with("--"))
    return config_wizard(std::move(arguments));  // as `accelerate config --config_file FILE`
  if (action == "wizard") return config_wizard({arguments.begin() + 1, arguments.end()});
  fail(ErrorKind::usage, "trireme config {}: expected show, options or wizard; `trireme config --help` explains them",
       action.empty() ? "needs an action" : action);
}

}  // namespace trireme
