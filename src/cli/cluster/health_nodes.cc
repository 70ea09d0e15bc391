// trireme health -f HOSTS: every node of a host list at once, one line per node.

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/count.h"
#include "base/error.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/log.h"
#include "cli/cluster/health.h"
#include "cli/cluster/host_flags.h"
#include "cluster/health/generate.h"
#include "cluster/health/run.h"
#include "cluster/health/slurm_state.h"
#include "cluster/launch/node_session.h"
#include "cluster/subprocess.h"

namespace trireme {
namespace {

using namespace launch;

constexpr size_t kMostFailures = 125;  // largest exit code that the shell does not use itself
constexpr double kPatience = 20;       // beyond the watchdog of the checks themselves

Json request_of(const HealthOptions& options) {
  Json variables = Json::object();
  for (const std::string& assignment : options.variables) {
    const size_t equals = assignment.find('=');
    require(equals != std::string::npos && equals > 0, ErrorKind::usage, "\"{}\" is neither a flag nor NAME=VALUE",
            assignment);
    variables[assignment.substr(0, equals)] = assignment.substr(equals + 1);
  }
  return {{"do", "health"},
          {"config", health_config_text(options)},
          {"all", options.all},
          {"seconds", options.seconds},
          {"repair", !options.no_repair},
          {"drain", options.drain},
          {"skip_gpu", options.skip_gpu},
          {"dry_run", options.dry_run},
          {"require_all", options.require_all},
          {"variables", variables}};
}

/// Nodes that sinfo reports as drained by trireme: they may be healthy again.
void take_back_drained(HostSet& hosts) {
  if (hosts.skipped.empty()) return;
  const ProcessResult asked =
      run_process({.arguments = {"sinfo", "-h", "-N", "-o", "%N|%E"}, .input = "", .variables = {}, .user = ""});
  if (asked.exit_code != 0) {
    log::warning("sinfo {}: nodes that were drained before are not checked", describe_end(asked));
    return;
  }
  std::set<std::string, std::less<>> ours;
  for (const std::string_view line : health::split_lines(std::string_view(asked.out))) {
    const size_t bar = line.find('|');
    if (bar != line.npos && health::is_own_reason(line.substr(bar + 1))) ours.emplace(line.substr(0, bar));
  }
  for (const Host& host : hosts.skipped) {
    if (ours.contains(host.name) && (host.state.starts_with("drain") || host.state.starts_with("drng"))) {
      hosts.hosts.push_back(host);
    }
  }
}

}  // namespace

int generate_for(const HostSet& hosts, const RemoteOptions& remote) {
  std::vector<health::GeneratedNode> nodes;
  if (hosts.hosts.empty()) {
    const health::Machine machine = health::Machine::local();
    nodes.push_back({machine.host, health::describe_node(machine)});
  } else {
    NodeSessions sessions(names_of(hosts), std::filesystem::read_symlink("/proc/self/exe"), remote);
    for (const Json& answer : sessions.ask_all({{"do", "describe"}}, 120)) {
      if (answer.is_null()) continue;
      nodes.push_back({answer.at("host"), {}});
      for (const Json& line : answer.at("lines")) nodes.back().lines.push_back({line.at(0), line.at(1)});
    }
    for (const Problem& problem : sessions.problems()) log::error("{}", to_text(problem));
    require(sessions.problems().empty(), ErrorKind::config, "health gen: no answer from {} of {}",
            sessions.problems().size(), count_text(hosts.hosts.size(), "host"));
  }
  fmt::print("{}", health::generate_config(nodes));
  return 0;
}

int check_nodes(const HealthOptions& options, HostSet hosts, const RemoteOptions& remote) {
  require(!options.list && !options.detached && options.name.empty(), ErrorKind::usage,
          "--list, --detached and --name are for one node; remove the hosts");
  const Json request = request_of(options);
  // An error of the whole request is reported once, as for one node.
  health::Settings settings;
  settings.fixed = settings.variables = request.at("variables").get<health::Variables>();
  const auto lines = health::parse_nhc_config(request.at("config").get<std::string>());
  const health::Plan plan = health::make_plan(lines, "", settings);
  require_usable(options, plan);
  health::watchdog_seconds(options.seconds, plan);
  if (options.drain) take_back_drained(hosts);
  const std::vector<std::string> names = names_of(hosts);
  NodeSessions sessions(names, std::filesystem::read_symlink("/proc/self/exe"), remote);
  const double watchdog = options.seconds < 0 ? 600 : options.seconds;
  const std::vector<Json> answers = sessions.ask_all(request, watchdog + kPatience);
  Json document = Json::array();
  size_t failures = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    if (answers[i].is_null()) {
      const std::string reason = sessions.why_no_answer(names[i]);
      ++failures;
      document.push_back({{"host", names[i]}, {"healthy", false}, {"reason", reason}});
      if (!options.json) fmt::print("{} | ERROR: No results reported ({})\n", names[i], reason);
      continue;
    }
    health::Report report = health::report_from_json(answers[i], names[i]);
    report.host = names[i];
    if (options.require_all) require_all_checked(report);
    failures += report.failures().size();
    document.push_back(to_json(report));
    if (options.json) continue;
    if (options.verbose) print_results(report, names[i] + " | ");
    print_node(report, options.quiet);
  }
  if (options.json) fmt::print("{}\n", dump_json(document, options.json_indent));
  return static_cast<int>(std::min<size_t>(failures, options.all ? kMostFailures : 1));
}

}  // namespace trireme
