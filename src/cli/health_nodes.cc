// trireme health -f HOSTS: every node of a host list at once, one line per node.

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/json_text.h"
#include "cli/health.h"
#include "cli/host_flags.h"
#include "cluster/health/run.h"
#include "cluster/launch/node_session.h"

namespace trireme {
namespace {

using namespace launch;

constexpr double kPatience = 20;  // beyond the watchdog of the checks themselves

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
          {"name", health_config_name(options)},
          {"all", options.all},
          {"seconds", options.seconds},
          {"repair", !options.no_repair},
          {"drain", options.drain},
          {"variables", variables}};
}

std::string reason_of(const NodeSessions& sessions, const std::string& host) {
  for (const Problem& problem : sessions.problems()) {
    if (problem.host == host) return problem.fix.empty() ? problem.what : problem.what + "; " + problem.fix;
  }
  return "no answer";
}

}  // namespace

int check_nodes(const HealthOptions& options, const HostSet& hosts, const SshOptions& ssh) {
  require(!options.list && !options.detached, ErrorKind::usage,
          "--list and --detached are of one node; leave the hosts out");
  const Json request = request_of(options);
  std::vector<std::string> names;
  for (const Host& host : hosts.hosts) names.push_back(host.name);
  NodeSessions sessions(names, std::filesystem::read_symlink("/proc/self/exe"), ssh);
  const double watchdog = options.seconds < 0 ? 600 : options.seconds;
  const std::vector<Json> answers = sessions.ask_all(request, watchdog + kPatience);
  Json document = Json::array();
  bool healthy = true;
  for (size_t i = 0; i < names.size(); ++i) {
    if (answers[i].is_null()) {
      const std::string reason = reason_of(sessions, names[i]);
      healthy = false;
      document.push_back({{"host", names[i]}, {"healthy", false}, {"reason", reason}});
      if (!options.json) fmt::print("{} | ERROR: No results reported ({})\n", names[i], reason);
      continue;
    }
    health::Report report = health::report_from_json(answers[i], names[i]);
    report.host = names[i];
    healthy = healthy && report.healthy();
    document.push_back(to_json(report));
    if (!options.json && (!options.quiet || !report.healthy())) fmt::print("{}", one_line_per_node(report));
  }
  if (options.json) fmt::print("{}\n", dump_json(document, options.json_indent));
  return healthy ? 0 : 1;
}

}  // namespace trireme
