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
#include "base/names.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/plan_text.h"
#include "cli/train/config_shape.h"
#include "config/document.h"
#include "plan/measured_machine.h"
#include "plan/node_type.h"
#include "train/start/rank_table.h"
#include "train/start/resolve.h"
#include "train/start/run_forecast.h"

namespace trireme {
namespace {

constexpr const char* kPlanUsage =
    "usage: trireme plan FILES... --node TYPE [--nodes N] [--ranks-per-node N] [--goal time|cost|memory] [--json "
    "FILE]\n"
    "                    [-d FOLDER] [--key value ...]\n"
    "       trireme plan FILES... --measured FILE.json... [--node TYPE] [--nodes N] ...\n"
    "       trireme plan --node-types\n\n"
    "Prints what a run of this configuration needs on N nodes: memory of the rank that needs most, operations, bytes "
    "on\n"
    "the links, the time of a step by cause, tokens per day, days and cost to the end. Then the five best layouts of\n"
    "these nodes that fit, why the others lose, and the lines of YAML that choose the first.\n\n";

std::vector<FlagShape> plan_flags() {
  std::vector<std::string> goals;
  for (const Named<PlanGoal>& goal : Names<PlanGoal>::kAll) goals.emplace_back(goal.name);
  return {
      {.names = {"--node"},
       .help = "a type of the table that --node-types prints, or a .yaml file (docs/planner.md lists its keys)"},
      {.names = {"--node-types"}, .help = "prints the table of node types", .kind = ValueKind::none},
      {.names = {"--measured"},
       .help = "files of `trireme bench node -J` and `trireme bench comm -J`, whose rates replace those of the type; "
               "with --node, whose price is used, they must be of such a node",
       .repeats = true},
      {.names = {"--nodes"}, .help = "number of nodes (default: 1)", .kind = ValueKind::number},
      {.names = {"--ranks-per-node"}, .help = "default: 1, on nodes with GPUs one for each", .kind = ValueKind::number},
      {.names = {"--goal"},
       .help = "what to minimise: time of a step (default), cost of the run, also on fewer nodes, or memory of a rank",
       .kind = ValueKind::choice,
       .choices = std::move(goals)},
      {.names = {"--simulate"},
       .help = "also simulates a step of the configuration event by event; the flags below need it",
       .kind = ValueKind::none},
      {.names = {"--slow"}, .help = "factor of the time that rank 0 computes (default: 1)", .kind = ValueKind::number},
      {.names = {"--trace"}, .help = "writes the simulated step to this file, for chrome://tracing or ui.perfetto.dev"},
      {.names = {"--failure-hours"},
       .help = "mean hours between failures of a node: prints the best interval of snapshots",
       .kind = ValueKind::number},
      {.names = {"--save-seconds"}, .help = "time of a snapshot (default: 60)", .kind = ValueKind::number},
      {.names = {"--restart-seconds"}, .help = "time of a restart (default: 300)", .kind = ValueKind::number},
      {.names = {"--json"}, .help = "also write the result to this file"}};
}

/// Where a word is `flag` or starts with `flag=`; words.size(): nowhere.
size_t find_flag(const std::string& flag, const std::vector<std::string>& words) {
  const auto found = std::ranges::find_if(
      words, [&](const std::string& word) { return word == flag || word.starts_with(flag + "="); });
  return static_cast<size_t>(found - words.begin());
}

void erase(std::vector<std::string>& words, size_t first, size_t count) {
  const auto at = words.begin() + static_cast<ptrdiff_t>(first);
  words.erase(at, at + static_cast<ptrdiff_t>(count));
}

/// Removes `flag VALUE` or `flag=VALUE` from the words.
std::optional<std::string> take_value(const std::string& flag, std::vector<std::string>& words) {
  const size_t at = find_flag(flag, words);
  if (at == words.size()) return {};
  const bool apart = words[at] == flag;
  require(!apart || at + 1 < words.size(), ErrorKind::usage, "{} needs a value; `trireme plan --help` explains it",
          flag);
  std::string value = apart ? words[at + 1] : words[at].substr(flag.size() + 1);
  erase(words, at, apart ? 2 : 1);
  require(find_flag(flag, words) == words.size(), ErrorKind::usage, "{} is given twice", flag);
  require(!value.empty(), ErrorKind::usage, "{}: the value is empty; is a shell variable not set?", flag);
  return value;
}

/// Removes `flag FILE.json...`, which may appear several times.
std::vector<std::string> take_files(const std::string& flag, std::vector<std::string>& words) {
  std::vector<std::string> files;
  for (size_t at = find_flag(flag, words); at < words.size(); at = find_flag(flag, words)) {
    if (words[at] != flag) {
      files.push_back(words[at].substr(flag.size() + 1));
      erase(words, at, 1);
      continue;
    }
    size_t end = at + 1;
    while (end < words.size() && words[end].ends_with(".json")) ++end;
    require(end > at + 1, ErrorKind::usage, "{} needs at least one .json file of `trireme bench node -J`", flag);
    for (size_t i = at + 1; i < end; ++i) files.push_back(words[i]);
    erase(words, at, end - at);
  }
  return files;
}

/// otherwise: if it is not given.
int64_t take_count(const std::string& flag, int64_t otherwise, std::vector<std::string>& words) {
  const std::optional<std::string> text = take_value(flag, words);
  if (!text) return otherwise;
  const Value value = resolve_plain(*text);
  const auto* number = std::get_if<int64_t>(&value);
  constexpr int64_t kMost = 1 << 16;
  require(number && *number >= 1 && *number <= kMost, ErrorKind::usage,
          "{} is {}, expected a whole number from 1 to {}", flag, *text, kMost);
  return *number;
}

/// A positive number; nullopt: not given.
std::optional<double> take_number(const std::string& flag, std::vector<std::string>& words) {
  constexpr double kMost = 1e7;  // hours and seconds that a plan can be about

  const std::optional<std::string> text = take_value(flag, words);
  if (!text) return {};
  const Value value = resolve_plain(*text);
  double number = 0;
  if (const auto* whole = std::get_if<int64_t>(&value)) number = static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&value)) number = *real;
  require(number > 0 && number <= kMost, ErrorKind::usage, "{} is {}, expected a positive number up to 10000000", flag,
          *text);
  return number;
}

/// What --simulate asks for.
struct SimulationRequest {
  bool wanted = false;
  SimulationOptions options;
  std::optional<std::string> trace;
  std::optional<double> failure_hours;
  double save_seconds = 60, restart_seconds = 300;
};

SimulationRequest take_simulation(std::vector<std::string>& words) {
  SimulationRequest request;
  const std::optional<double> slow = take_number("--slow", words), save = take_number("--save-seconds", words),
                              restart = take_number("--restart-seconds", words);
  request.trace = take_value("--trace", words);
  request.failure_hours = take_number("--failure-hours", words);
  if (const size_t at = find_flag("--simulate", words); at < words.size()) {
    require(words[at] == "--simulate", ErrorKind::usage, "--simulate takes no value, found \"{}\"", words[at]);
    request.wanted = true;
    erase(words, at, 1);
  }
  const bool more = slow || save || restart || request.trace || request.failure_hours;
  require(request.wanted || !more, ErrorKind::usage,
          "--slow, --trace, --failure-hours, --save-seconds and --restart-seconds need --simulate; add it");
  require(request.failure_hours || !(save || restart), ErrorKind::usage,
          "--save-seconds and --restart-seconds need --failure-hours; add it");
  request.options.slow = slow.value_or(1);
  request.options.records = request.trace.has_value();
  request.save_seconds = save.value_or(request.save_seconds);
  request.restart_seconds = restart.value_or(request.restart_seconds);
  return request;
}

/// Prints what was asked for, and writes the trace.
Json simulate(const SimulationRequest& request, const RunForecast& given) {
  const SimulatedStep step = simulate_run(given, request.options);
  fmt::print("{}", to_text(step, given));
  Json json = to_json(step);
  if (request.failure_hours) {
    const FailurePlan plan =
        plan_failures(*request.failure_hours, given.on.nodes, request.save_seconds, request.restart_seconds);
    fmt::print("{}", to_text(plan, given));
    json["failures"] = {{"seconds_between", plan.failure_seconds},
                        {"snapshot_interval_seconds", plan.interval_seconds},
                        {"useful", plan.useful}};
  }
  if (request.trace) write_text(*request.trace, dump_valid_json(trace_json(step)) + "\n");
  return json;
}

PlanGoal take_goal(std::vector<std::string>& words) {
  const std::optional<std::string> text = take_value("--goal", words);
  if (!text) return PlanGoal::time;
  const std::optional<PlanGoal> goal = value_named<PlanGoal>(*text);
  require(goal.has_value(), ErrorKind::usage, "--goal is {}, expected time, cost or memory", *text);
  return *goal;
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

CommandShape plan_shape() {
  CommandShape shape{.name = "plan",
                     .purpose =
                         "Prints what a run of this configuration needs on N nodes: memory of the rank that "
                         "needs most, operations, bytes on the links, the time of a step by cause, tokens per "
                         "day, days and cost to the end, and the best layouts that fit.",
                     .flags = file_flags(),
                     .groups = option_groups()};
  for (FlagShape& flag : plan_flags()) shape.flags.push_back(std::move(flag));
  return shape;
}

int run_plan(std::vector<std::string> arguments) {
  if (asks_help(arguments)) {
    fmt::print("{}{}", kPlanUsage, flag_lines(plan_flags()));
    return 0;
  }
  if (const size_t at = find_flag("--node-types", arguments); at < arguments.size()) {
    require(arguments.size() == 1, ErrorKind::usage, "--node-types takes no other arguments, found \"{}\"",
            arguments[at == 0 ? 1 : 0]);
    fmt::print("{}", node_types_markdown());
    return 0;
  }
  const std::optional<std::string> name = take_value("--node", arguments), json = take_value("--json", arguments);
  const std::vector<std::string> files = take_files("--measured", arguments);
  const PlanGoal goal = take_goal(arguments);
  const SimulationRequest simulation = take_simulation(arguments);
  PlannedNodes on;
  on.nodes = take_count("--nodes", 1, arguments);
  on.type = nodes_of(name, files, on.nodes);
  on.per_node = take_count("--ranks-per-node", std::max<int64_t>(1, on.type.gpus), arguments);
  constexpr int64_t kMostRanks = 1 << 16;
  require(on.ranks() <= kMostRanks, ErrorKind::usage, "{} x {} are {} ranks, expected at most {}", on.nodes,
          on.per_node, on.ranks(), kMostRanks);
  std::vector<std::string> own;
  for (const FlagShape& flag : plan_flags()) own.push_back(flag.names[0]);
  require_spelling(arguments, own);
  for (const auto& [flag, file] : {std::pair("--json", json), {"--trace", simulation.trace}})
    require_output(flag, file.value_or(""));
  const ConfigWords split = split_words(arguments);
  require(!split.files.empty() || !split.flags.empty(), ErrorKind::usage,
          "trireme plan needs a configuration; name its files, or --model.preset NAME");
  LoadedConfig loaded = load_config(split.files, split.flags, split.dialect);
  resolve_model(loaded);
  std::optional<RunForecast> given;
  std::optional<Error> impossible;  // the configuration's own layout
  try {
    given = forecast_run(loaded, on);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::config) throw;
    impossible = error;
  }
  Json result{{"goal", name_of(goal)}, {"best", Json::array()}};
  if (given) {
    fmt::print("{}", to_text(*given));
    const HostMap hosts = even_hosts(static_cast<int>(on.ranks()), static_cast<int>(on.nodes));
    if (const std::string groups = split_tensor_groups(given->plan.mesh, hosts); !groups.empty())
      log::warning("plan: {}", groups);
    result["plan"] = to_json(*given);
    if (simulation.wanted) result["simulated"] = simulate(simulation, *given);
  }
  const std::vector<RunForecast> best = search(loaded, on, goal, impossible);
  if (!best.empty()) fmt::print("\nlayouts that fit, best {} first:\n{}", name_of(goal), to_text(best, goal));
  if (json) {
    for (const RunForecast& one : best) result["best"].push_back(to_json(one));
    write_text(*json, dump_valid_json(result, 1) + "\n");
  }
  if (impossible) throw Error(*impossible);
  if (!given->fits()) fail(ErrorKind::config, "{}", fits_text(*given, best, remedies_for(loaded, *given)));
  return 0;
}

}  // namespace trireme
