#include "cli/host_flags.h"

#include <CLI/CLI.hpp>
#include <cstdlib>

namespace trireme {

void add_host_flags(CLI::App& app, HostRequest& request) {
  app.add_option("-f,--hostfile", request.hostfile, "hostfile of Intel MPI, Open MPI or DeepSpeed");
  app.add_option("--hosts", request.hosts, "hosts on the command line: a,b:2,n[1-3]:4");
  app.add_option("--sinfo", request.sinfo, "nodes of sinfo: a file of its output, - for standard input, run to run it")
      ->expected(0, 1)
      ->default_str("run");
  app.add_flag("--slurm", request.slurm, "the nodes of the Slurm job around this command (the default inside one)");
  app.add_option("--partition", request.partition, "with --sinfo: nodes of this partition only");
  app.add_option("--include", request.include, "only these: host[:slot,slot]@host");
  app.add_option("--exclude", request.exclude, "all but these: host[:slot,slot]@host");
  app.add_option("--num-nodes", request.num_nodes, "the first N hosts that are left")->check(CLI::PositiveNumber);
}

const char* environment_variable(const char* name) { return std::getenv(name); }

}  // namespace trireme
