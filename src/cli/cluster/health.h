#pragma once
#include <string>
#include <vector>

#include "cluster/health/run.h"
#include "cluster/host_source.h"
#include "cluster/launch/remote_shell.h"

namespace trireme {

/// What `trireme health` was asked for.
struct HealthOptions {
  std::string config, check, name, log_file;
  std::string result_file = "/run/trireme/health.json";
  double seconds = -1;  ///< below 0: not told
  bool list = false, all = false, verbose = false, quiet = false, json = false;
  bool no_repair = false, detached = false, drain = false, dry_run = false, require_all = false;
  int json_indent = 2;
  std::vector<std::string> variables;
};

/// The exit code of NHC.
int check_this_node(const HealthOptions& options);
/// Every host at once through node agents, one line each; with sinfo and --drain also the nodes that `health` drained
/// before. 0: all of them are healthy; else 1, with --all the number of failures, nodes without a result included.
int check_nodes(const HealthOptions& options, HostSet hosts, const launch::RemoteOptions& remote);
/// Prints a configuration that all these hosts pass; none: this one.
int generate_for(const HostSet& hosts, const launch::RemoteOptions& remote);

/// Of --config, --check or standard input. Throws Error::config when there is no such file.
std::string health_config_text(const HealthOptions& options);

/// Throws Error::config where the one check that was asked for on the command line cannot be used: there is nothing
/// else that could stay in force.
void require_usable(const HealthOptions& options, const health::Plan& plan);

/// What passed and what was not checked, one line each after `prefix`.
void print_results(const health::Report& report, const std::string& prefix);
/// One line of the result, and on the error stream what was not checked and what was done in Slurm.
void print_node(const health::Report& report, bool quiet);

}  // namespace trireme
