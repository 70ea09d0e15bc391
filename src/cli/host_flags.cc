#include "cli/host_flags.h"

#include "base/error.h"

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

}  // namespace trireme
