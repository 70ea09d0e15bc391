#include "cli/cluster/host_flags.h"

#include <filesystem>

#include "base/error.h"
#include "cli/version.h"
#include "cluster/launch/agent_channel.h"

namespace trireme {

void add_host_flags(Flags& app, HostRequest& request) {
  app.add("-f,--hostfile", request.hostfile, "hostfile of Intel MPI, Open MPI or DeepSpeed").not_empty();
  app.add("--hosts", request.hosts, "hosts on the command line: a,b:2,n[1-3]:4").not_empty();
  app.add("--sinfo", request.sinfo, "nodes from sinfo: a file with its output, - for standard input, run to run it")
      .optional_value("run", "[FILE|-|run]");
  app.add_switch("--slurm", request.slurm, "the nodes of the current Slurm job (the default inside a job)");
  app.add("--partition", request.partition, "with --sinfo: nodes of this partition only");
  app.add("--states", request.states,
          "with --sinfo: nodes in these states, such as idle,mix; all: any that can run a job")
      .not_empty()
      .show_default();
  app.add("--include", request.include, "only these: host[:slot,slot]@host");
  app.add("--exclude", request.exclude, "all except these: host[:slot,slot]@host");
  app.add("--num-nodes", request.num_nodes, "only the first N of the remaining hosts").positive();
}

void require_sinfo(const Flags& app, const HostRequest& request) {
  require(app.count("--sinfo") == 0 || !request.sinfo.empty(), ErrorKind::usage,
          "--sinfo: the value is empty; is a shell variable not set?");
  require(app.count("--states") == 0 || !request.sinfo.empty(), ErrorKind::usage, "--states needs --sinfo");
}

void add_remote_flags(Flags& app, launch::RemoteOptions& options) {
  app.add("--host-key", options.host_key, "unknown host keys of ssh: yes refuses them, accept-new stores them")
      .show_default();
  app.add("--connect-timeout", options.connect_seconds, "seconds for a connection to a host").positive().show_default();
  app.add_switch("--agents", options.agents,
                 "reach the hosts through `trireme agent`, which runs there, instead of ssh");
  app.add("--secret-file", options.secret_file,
          "with --agents: file with the agents' secret; default: the variable TRIREME_AGENT_SECRET")
      .not_empty();
  app.add("--agent-port", options.agent_port, "with --agents: port of hosts without port= in the hostfile")
      .in_range(1, 65535)
      .show_default();
  app.add("--wait-for-agents", options.wait_seconds, "with --agents: seconds to wait for agents that start later")
      .not_negative()
      .show_default();
}

void complete_remote_options(const Flags& app, launch::RemoteOptions& options) {
  launch::ssh_command(options);  // reports a wrong --host-key before anything else
  for (const char* flag : {"--secret-file", "--agent-port", "--wait-for-agents"}) {
    require(options.agents || app.count(flag) == 0, ErrorKind::usage, "{} needs --agents; add --agents", flag);
  }
  if (!options.agents) return;
  require(app.count("--host-key") == 0, ErrorKind::usage, "--host-key is for ssh; remove it, or remove --agents");
  launch::read_agent_secret(options.secret_file);
  if (!options.secret_file.empty()) options.secret_file = std::filesystem::absolute(options.secret_file);
  options.version = program_text();
}

bool names_hosts(const HostRequest& request) {
  return !request.hostfile.empty() || !request.hosts.empty() || !request.sinfo.empty() || request.slurm;
}

void require_no_host_selection(const HostRequest& request, const launch::RemoteOptions& options) {
  require(!options.agents, ErrorKind::usage,
          "--agents is for other hosts; name them with -f, --hosts, --sinfo or --slurm");
  require(request.include.empty() && request.exclude.empty() && request.num_nodes == 0, ErrorKind::usage,
          "--include, --exclude and --num-nodes select hosts; name hosts with -f, --hosts, --sinfo or --slurm");
}

std::vector<std::string> names_of(const HostSet& hosts) {
  std::vector<std::string> names;
  for (const Host& host : hosts.hosts) names.push_back(host.name);
  return names;
}

}  // namespace trireme
