// trireme hosts: shows the hosts that a launch would use, or writes them in another form.

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/count.h"
#include "base/error.h"
#include "base/host.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/log.h"
#include "cli/cluster/host_flags.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cluster/hostfile.h"

namespace trireme {
namespace {

void print_table(const HostSet& set, std::span<const Placement> placement) {
  fmt::print("{:<24} {:>9}  {:<20} {}\n", "host", "processes", "from", "state");
  size_t next = 0;
  for (const Host& host : set.hosts) {
    const bool used = next < placement.size() && placement[next].host == host.name;
    fmt::print("{:<24} {:>9}  {:<20} {}\n", host.name, used ? placement[next].processes : 0, host.origin, host.state);
    if (used) ++next;
  }
  for (const Host& host : set.skipped) {
    fmt::print("{:<24} {:>9}  {:<20} {}\n", host.name, "skipped", host.origin, host.state);
  }
}

Json to_json(const HostSet& set, std::span<const Placement> placement) {
  Json document{{"source", set.source}, {"hosts", Json::array()}, {"skipped", Json::array()}};
  size_t next = 0;
  for (const Host& host : set.hosts) {
    const bool used = next < placement.size() && placement[next].host == host.name;
    document["hosts"].push_back({{"name", host.name},
                                 {"slots", host.slots},
                                 {"processes", used ? placement[next].processes : 0},
                                 {"from", host.origin},
                                 {"state", host.state}});
    if (used) ++next;
  }
  for (const Host& host : set.skipped) {
    document["skipped"].push_back({{"name", host.name}, {"from", host.origin}, {"state", host.state}});
  }
  return document;
}

}  // namespace

int run_hosts(CommandLine line) {
  Flags app(std::move(line), "trireme hosts",
            "Shows the hosts that a launch would use, or writes them as a hostfile of another kind.");
  HostRequest request;
  PlacementRequest wanted;
  std::string form = "table";
  add_host_flags(app, request);
  app.add("--np", wanted.processes, "total number of processes").positive();
  app.add("--ppn", wanted.per_host, "processes per host").positive();
  app.add("--to", form, "table, json, list, intel, openmpi, deepspeed or slurm (a host list expression)");
  if (const auto code = app.parse()) return *code;
  require_sinfo(app, request);

  const HostSet set = resolve_hosts(request, environment_variable);
  const std::vector<Placement> placement = place(set.hosts, wanted);
  if (form == "table") {
    const auto processes = total_processes(placement);
    log::info("{}: {} on {}", set.source, count_text(processes, "process"), count_text(placement.size(), "host"));
    print_table(set, placement);
    return 0;
  }
  if (form == "json") {
    fmt::print("{}\n", dump_json(to_json(set, placement), 2));
    return 0;
  }
  std::vector<Host> used;
  for (const Placement& entry : placement) used.push_back({entry.host, entry.processes, 0, "", ""});
  // Without a request, the file is converted unchanged, including max_slots.
  const bool as_it_is = wanted.processes == 0 && wanted.per_host == 0;
  fmt::print("{}", format_hostfile(as_it_is ? set.hosts : used, hostfile_form(form)));
  for (const Host& host : set.skipped) log::info("skipped {}: {}", host.name, host.state);
  return 0;
}

}  // namespace trireme
