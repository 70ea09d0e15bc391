#pragma once
#include <string>
#include <vector>

#include "cluster/health/run.h"
#include "cluster/host_source.h"
#include "cluster/launch/remote_shell.h"

namespace trireme {

/// The options of `trireme health`.
struct HealthOptions {
  std::string config, check, name, log_file;
  std::string result_file = "/run/trireme/health.json";
  double seconds = -1;  ///< below 0: not given
  bool list = false, all = false, verbose = false, quiet = false, json = false;
  bool no_repair = false, skip_gpu = false, detached = false, drain = false, dry_run = false, require_all = false;
  int json_indent = 2;
  std::vector<std::string> variables;
};

/// The exit code of NHC.
int check_this_node(const HealthOptions& options);
/// Every host at once through node agents, one line each; with sinfo and --drain also the nodes that `health` drained
/// before. 0: all of them are healthy; otherwise 1, or with --all the number of failures, including nodes without a
/// result.
int check_nodes(const HealthOptions& options, HostSet hosts, const launch::RemoteOptions& remote);
/// Prints a configuration that all these hosts pass; without hosts: this host.
int generate_for(const HostSet& hosts, const launch::RemoteOptions& remote);

/// From --config, --check or standard input. Throws Error::config if the file does not exist.
std::string health_config_text(const HealthOptions& options);

/// Throws Error::config if the single check from the command line is invalid, because it is then the only one.
void require_usable(const HealthOptions& options, const health::Plan& plan);

/// Prints the checks that passed and those that did not run, one line each after `prefix`.
void print_results(const health::Report& report, const std::string& prefix);
/// Prints one line of the result, and on standard error the checks that did not run and the changes in Slurm.
void print_node(const health::Report& report, bool quiet);

}  // namespace trireme
