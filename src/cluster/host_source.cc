#include "cluster/host_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <sstream>
#include <thread>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "cluster/hostfile.h"
#include "cluster/subprocess.h"

namespace trireme {
namespace {

// PBS and LSF list the hosts of a job in a file with one line per slot, LSF also in variables: "h1 h1 h2", "h1 2 h2 1".
constexpr const char* kSlotFiles[] = {"PBS_NODEFILE", "LSB_DJOB_HOSTFILE"};
constexpr const char* kJobHostfile = "DLTS_HOSTFILE";  // of DeepSpeed and GPT-NeoX
constexpr const char* kSlotLists[] = {"LSB_MCPU_HOSTS", "LSB_HOSTS"};

std::vector<Host> hosts_of_words(const std::string& text, const char* name) {
  std::string lines;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const bool count = word.find_first_not_of("0123456789") == std::string::npos;
    lines += (count && !lines.empty() ? " slots=" : "\n") + word;
  }
  return parse_hostfile(lines, name, Repeats::are_slots);
}

std::string sinfo_text(const std::string& source) {
  if (source == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  if (source != "run") return read_text(source, size_t{256} << 20);
  const ProcessResult result =
      run_process({.arguments = {"sinfo", "-o", "%P %T %N"}, .input = "", .variables = {}, .user = ""});
  require(result.exit_code == 0 && !result.timed_out, ErrorKind::config,
          "sinfo {}: {}; outside a Slurm cluster use --hostfile", describe_end(result),
          result.err.substr(0, result.err.find('\n')));
  return result.out;
}

HostSet from_sinfo(const HostRequest& request) {
  const std::string name = request.sinfo == "run" ? "sinfo" : request.sinfo == "-" ? "standard input" : request.sinfo;
  SlurmNodes nodes = parse_sinfo(sinfo_text(request.sinfo), name, request.partition);
  keep_states(nodes, request.states, "--states");
  require(!nodes.usable.empty() || request.may_all_be_out, ErrorKind::config,
          "{}: none of its {} is usable; the first is {} {}", name, count_text(nodes.skipped.size(), "node"),
          nodes.skipped.front().name, nodes.skipped.front().state);
  return {std::move(nodes.usable), std::move(nodes.skipped), name};
}

HostSet from_source(const HostRequest& request, const EnvironmentReader& environment) {
  if (!request.hostfile.empty()) {
    // The scheduler's file, named by the user.
    const bool slots = std::ranges::any_of(kSlotFiles, [&](const char* name) {
      const char* value = environment(name);
      return value != nullptr && request.hostfile == value;
    });
    return {read_hostfile(request.hostfile, slots ? Repeats::are_slots : Repeats::are_errors),
            {},
            "hostfile " + request.hostfile};
  }
  if (!request.hosts.empty()) return {parse_host_argument(request.hosts), {}, "--hosts"};
  if (!request.sinfo.empty()) return from_sinfo(request);
  const auto is_set = [&](const char* name) {
    const char* value = environment(name);
    return value != nullptr && *value != '\0';
  };
  if (request.slurm || is_set("SLURM_JOB_NODELIST") || is_set("SLURM_NODELIST")) {
    return {slurm_job_hosts(environment), {}, "the Slurm job"};
  }
  for (const char* name : kSlotFiles) {
    if (is_set(name)) return {read_hostfile(environment(name), Repeats::are_slots), {}, std::string(name)};
  }
  for (const char* name : kSlotLists) {
    if (is_set(name)) return {hosts_of_words(environment(name), name), {}, name};
  }
  if (is_set(kJobHostfile)) {
    const std::string path = environment(kJobHostfile);
    return {read_hostfile(path), {}, fmt::format("hostfile {} from {}", path, kJobHostfile)};
  }
  std::error_code unseen;
  if (std::filesystem::exists(request.job_hostfile, unseen)) {
    return {read_hostfile(request.job_hostfile),
            {},
            fmt::format("hostfile {}, because -f is not set", request.job_hostfile)};
  }
  const int cpus = static_cast<int>(std::thread::hardware_concurrency());  // allowed by our CPU affinity
  return {{Host{"localhost", 0, cpus, "no hostfile", ""}},
          {},
          fmt::format("only this host (no -f, no job of Slurm, PBS or LSF, no {} and no {})", kJobHostfile,
                      request.job_hostfile)};
}

}  // namespace

HostSet resolve_hosts(const HostRequest& request, const EnvironmentReader& environment) {
  const int sources =
      int{!request.hostfile.empty()} + int{!request.hosts.empty()} + int{!request.sinfo.empty()} + int{request.slurm};
  require(sources <= 1, ErrorKind::usage, "--hostfile, --hosts, --sinfo and --slurm exclude each other; give only one");
  require(request.partition.empty() || !request.sinfo.empty(), ErrorKind::usage, "--partition needs --sinfo; add it");
  HostSet set = from_source(request, environment);
  if (set.hosts.empty()) return set;
  for (const Host& host : set.hosts) require_host_name(host.name, host.origin.empty() ? set.source : host.origin);
  set.hosts = filter_hosts(std::move(set.hosts), request.include, request.exclude);
  if (request.num_nodes > 0) {
    const auto wanted = static_cast<size_t>(request.num_nodes);
    require(wanted <= set.hosts.size(), ErrorKind::config,
            "--num-nodes {}: {} has only {}; lower --num-nodes or add hosts", request.num_nodes, set.source,
            count_text(set.hosts.size(), "host"));
    set.hosts.resize(wanted);
  }
  set.source += fmt::format(", {}", count_text(set.hosts.size(), "host"));
  return set;
}

}  // namespace trireme
