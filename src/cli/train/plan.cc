// trireme plan: what a run will take and cost, before it is started, and which layout to take.

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/log.h"
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

/// What --simulate asks for.
struct SimulationRequest {
  bool wanted = false;
  std::optional<double> slow, failure_hours, save_seconds, restart_seconds;
  std::optional<std::string> trace;
};

struct PlanRequest {
  ConfigWords words;
  std::optional<std::string> node, json;
  std::vector<std::string> measured;
  bool lists_types = false;
  int64_t nodes = 1;
  std::optional<int64_t> per_node;
  PlanGoal goal = PlanGoal::time;
  SimulationRequest simulation;
};

void declare(Flags& app, PlanRequest& request) {
  constexpr int64_t kMost = 1 << 16;
  constexpr double kMostTime = 1e7;  // hours and seconds that a plan can be about
  SimulationRequest& simulation = request.simulation;
  app.set_usage(
      "trireme plan FILES... --node TYPE [--nodes N] [--ranks-per-node N] [--goal time|cost|memory] [--json FILE]\n"
      "             [-d FOLDER] [--key value ...]\n"
      "trireme plan FILES... --measured FILE.json... [--node TYPE] [--nodes N] ...\n"
      "trireme plan --node-types");
  app.set_footer(
      "The five best layouts are printed with the reasons for which the others lose, and the lines of YAML that choose "
      "the first.");
  app.add_configuration(request.words, OptionsInHelp::none);
  app.add("--node", request.node,
          "a type of the table that --node-types prints, or a .yaml file (docs/planner.md lists its keys)")
      .not_empty()
      .once();
  app.add_switch("--node-types", request.lists_types, "prints the table of node types");
  app.add("--measured", request.measured,
          "files of `trireme bench node -J` and `trireme bench comm -J`, whose rates replace those of the type; "
          "with --node, whose price is used, they must be of such a node")
      .files(".json")
      .not_empty()
      .needs("at least one .json file of `trireme bench node -J`");
  app.add("--nodes", request.nodes, "number of nodes").in_range(1, kMost).show_default().once();
  app.add("--ranks-per-node", request.per_node, "default: 1, on nodes with GPUs one for each")
      .in_range(1, kMost)
      .once();
  app.choice("--goal", request.goal,
             "what to minimise: time of a step, cost of the run, also on fewer nodes, or memory of a rank")
      .once();
  app.add_switch("--simulate", simulation.wanted,
                 "also simulates a step of the configuration event by event; the flags below need it");
  app.add("--slow", simulation.slow, "factor of the time that rank 0 computes (default: 1)")
      .positive_up_to(kMostTime)
      .once();
  app.add("--trace", simulation.trace,
          "writes the simulated step to this file, for chrome://tracing or ui.perfetto.dev")
      .output_file()
      .once();
  app.add("--failure-hours", simulation.failure_hours,
          "mean hours between failures of a node: prints the best interval of snapshots")
      .positive_up_to(kMostTime)
      .once();
  app.add("--save-seconds", simulation.save_seconds, "time of a snapshot (default: 60)")
      .positive_up_to(kMostTime)
      .once();
  app.add("--restart-seconds", simulation.restart_seconds, "time of a restart (default: 300)")
      .positive_up_to(kMostTime)
      .once();
  app.add("--json", request.json, "also write the result to this file").output_file().once();
}

void check(const SimulationRequest& request) {
  const bool times = request.save_seconds || request.restart_seconds;
  require(request.wanted || !(request.slow || times || request.trace || request.failure_hours), ErrorKind::usage,
          "--slow, --trace, --failure-hours, --save-seconds and --restart-seconds need --simulate; add it");
  require(request.failure_hours || !times, ErrorKind::usage,
          "--save-seconds and --restart-seconds need --failure-hours; add it");
}

/// Prints what was asked for, and writes the trace.
Json simulate(const SimulationRequest& request, const RunForecast& given) {
  const SimulatedStep step =
      simulate_run(given, {.slow = request.slow.value_or(1), .records = request.trace.has_value()});
  fmt::print("{}", to_text(step, given));
  Json json = to_json(step);
  if (request.failure_hours) {
    const FailurePlan plan = plan_failures(*request.failure_hours, given.on.nodes, request.save_seconds.value_or(60),
                                           request.restart_seconds.value_or(300));
    fmt::print("{}", to_text(plan, given));
    json["failures"] = {{"seconds_between", plan.failure_seconds},
                        {"snapshot_interval_seconds", plan.interval_seconds},
                        {"useful", plan.useful}};
  }
  if (request.trace) write_text(*request.trace, dump_valid_json(trace_json(step)) + "\n");
  return json;
}

NodeType nodes_of(const std::optional<std::string>& name, const std::vector<std::string>& files, int64_t nodes) {
  require(name || !files.empty(), ErrorKind::usage,
          "trireme plan needs --node TYPE or --measured FILE; `trireme plan --node-types` lists the types");
  if (files.empty()) return find_node_type(*name);
  const MeasuredMachine measured = read_measured_machine(files);
  NodeType node = measured.node;
  constexpr double kBusy = 0.1;  // as `trireme bench node` warns
  if (measured.taken >= kBusy)
    log::warning(
        "plan: {}: other programs used {:.0f} % of the processors while it was measured, so that the planned times are "
        "too long; measure again on an idle node",
        measured.busy, 1e2 * measured.taken);
  if (name) {
    const NodeType type = find_node_type(*name);
    require_same_machine(measured, type);
    node.price_per_hour = type.price_per_hour;
    node.price_date = type.price_date;
    if (!measured.network) node.network_gbit_per_s = type.network_gbit_per_s * type.network_share;
  }
  require(nodes == 1 || node.network_gbit_per_s > 0, ErrorKind::config,
          "{} nodes need the network's rate, and no measured file is of several hosts; add one of `trireme launch -f "
          "HOSTS -- bench comm gradient -J FILE`, or --node TYPE",
          nodes);
  return node;
}

/// The best layouts. impossible: why the configuration's own one is.
std::vector<RunForecast> search(const LoadedConfig& loaded, const PlannedNodes& on, PlanGoal goal,
                                const std::optional<Error>& impossible) {
  constexpr size_t kShown = 5;
  try {
    std::vector<RunForecast> best = best_layouts(loaded, on, goal, kShown);
    if (const auto nodes = nodes_that_share_the_batch(loaded, on); best.empty() && nodes)
      fmt::print("\n{}\n", batch_text(on, loaded.config.batch.global, *nodes));
    return best;
  } catch (const Error&) {
    if (impossible) throw Error(*impossible);
    throw;
  }
}

}  // namespace

int run_plan(CommandLine line) {
  Flags app(std::move(line), "trireme plan",
            "Prints what a run of this configuration needs on N nodes: memory of the rank that needs most, operations, "
            "bytes on the links, the time of a step by cause, tokens per day, days and cost to the end, and the best "
            "layouts that fit.");
  PlanRequest request;
  declare(app, request);
  if (const auto code = app.parse()) return *code;
  if (request.lists_types) {
    const std::vector<std::string>& words = app.words();
    require(words.size() == 1, ErrorKind::usage, "--node-types takes no other arguments, found \"{}\"",
            words[words[0] == "--node-types" ? 1 : 0]);
    fmt::print("{}", node_types_markdown());
    return 0;
  }
  check(request.simulation);
  const ConfigWords& words = request.words;
  LoadedConfig loaded = load_config(words.files, words.flags, words.dialect);
  PlannedNodes on;
  on.nodes = request.nodes;
  on.type = nodes_of(request.node, request.measured, on.nodes);
  on.per_node = request.per_node.value_or(std::max<int64_t>(1, on.type.gpus));
  constexpr int64_t kMostRanks = 1 << 16;
  require(on.ranks() <= kMostRanks, ErrorKind::usage, "{} x {} are {} ranks, expected at most {}", on.nodes,
          on.per_node, on.ranks(), kMostRanks);
  require(!words.files.empty() || !words.flags.empty(), ErrorKind::usage,
          "trireme plan needs a configuration; name its files, or --model.preset NAME");
  resolve_model(loaded);
  std::optional<RunForecast> given;
  std::optional<Error> impossible;  // the configuration's own layout
  try {
    given = forecast_run(loaded, on);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::config) throw;
    impossible = error;
  }
  Json result{{"goal", name_of(request.goal)}, {"best", Json::array()}};
  if (given) {
    fmt::print("{}", to_text(*given));
    const HostMap hosts = even_hosts(static_cast<int>(on.ranks()), static_cast<int>(on.nodes));
    if (const std::string groups = split_tensor_groups(given->plan.mesh, hosts); !groups.empty())
      log::warning("plan: {}", groups);
    result["plan"] = to_json(*given);
    if (request.simulation.wanted) result["simulated"] = simulate(request.simulation, *given);
  }
  const std::vector<RunForecast> best = search(loaded, on, request.goal, impossible);
  if (!best.empty())
    fmt::print("\nlayouts that fit, best {} first:\n{}", name_of(request.goal), to_text(best, request.goal));
  if (request.json) {
    for (const RunForecast& one : best) result["best"].push_back(to_json(one));
    write_text(*request.json, dump_valid_json(result, 1) + "\n");
  }
  if (impossible) throw Error(*impossible);
  if (!given->fits()) fail(ErrorKind::config, "{}", fits_text(*given, best, remedies_for(loaded, *given)));
  return 0;
}

}  // namespace trireme
