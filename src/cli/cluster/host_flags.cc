#include "cli/cluster/host_flags.h"

#include <filesystem>

#include "base/error.h"
#include "cli/version.h"
#include "cluster/launch/agent_secret.h"

namespace trireme {

void add_host_flags(Flags& app, HostRequest& request) {
  app.add("-f,--hostfile", request.hostfile, "hostfile of Intel MPI, Open MPI or DeepSpeed").not_empty();
  app.add("--hosts", request.hosts, "hosts on the command line: a,b:2,n[1-3]:4").not_empty();
  app.add("--sinfo", request.sinfo, "nodes of sinfo: a file of its output, - for standard input, run to run it")
      .optional_value("run", "[FILE|-|run]");
  app.add_switch("--slurm", request.slurm, "the nodes of the Slurm job around this command (the default inside one)");
  app.add("--partition", request.partition, "with --sinfo: nodes of this partition only");
  app.add("--states", request.states,
          "with --sinfo: nodes in these states, such as idle,mix; all: any that can run a job")
      .not_empty()
      .show_default();
  app.add("--include", request.include, "only these: host[:slot,slot]@host");
  app.add("--exclude", request.exclude, "all but these: host[:slot,slot]@host");
  app.add("--num-nodes", request.num_nodes, "the first N hosts that are left").positive();
}

void require_sinfo(const Flags& app, const HostRequest& request) {
  require(app.count("--sinfo") == 0 || !request.sinfo.empty(), ErrorKind::usage,
          "--sinfo: nothing given; is a variable of the shell not set?");
  require(app.count("--states") == 0 || !request.sinfo.empty(), ErrorKind::usage,
          "--states chooses among the rows of sinfo; give --sinfo as well");
}

void add_remote_flags(Flags& app, launch::RemoteOptions& options) {
  app.add("--host-key", options.host_key, "unknown host keys of ssh: yes refuses them, accept-new learns them")
      .show_default();
  app.add("--connect-timeout", options.connect_seconds, "seconds for a connection to a host").positive().show_default();
  app.add_switch("--agents", options.agents, "reach the hosts through `trireme agent`, which waits there, not by ssh");
  app.add("--secret-file", options.secret_file,
          "with --agents: the secret that the agents have; default TRIREME_AGENT_SECRET")
      .not_empty();
  app.add("--agent-port", options.agent_port, "with --agents: of hosts without port= in the hostfile")
      .in_range(1, 65535)
      .show_default();
  app.add("--wait-for-agents", options.wait_seconds, "with --agents: seconds to wait for those that start later")
      .not_negative()
      .show_default();
}

void complete_remote_options(const Flags& app, launch::RemoteOptions& options) {
  launch::ssh_command(options);  // refuses a wrong --host-key before anything happens
  for (const char* flag : {"--secret-file", "--agent-port", "--wait-for-agents"}) {
    require(options.agents || app.count(flag) == 0, ErrorKind::usage, "{} is for --agents; give both, or neither",
            flag);
  }
  if (!options.agents) return;
  require(app.count("--host-key") == 0, ErrorKind::usage, "--host-key is for ssh; leave it out with --agents");
  launch::read_agent_secret(options.secret_file);
  if (!options.secret_file.empty()) options.secret_file = std::filesystem::absolute(options.secret_file);
  options.version = program_text();
}

}  // namespace trireme
