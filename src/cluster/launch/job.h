#pragma once
// A launched job: checks its hosts; starts, watches and stops its ranks, and restarts them if requested.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cluster/host_source.h"
#include "cluster/launch/preflight.h"
#include "cluster/launch/remote_shell.h"
#include "cluster/launch/starter.h"
#include "comm/host_map.h"
#include "hub/place.h"

namespace trireme {

struct LaunchRequest {
  HostRequest hosts;
  PlacementRequest placement;
  launch::StarterRequest starter;
  launch::RemoteOptions remote;
  std::vector<std::string> variables;  ///< NAME=VALUE
  std::vector<std::string> defaults;   ///< NAME=VALUE of options that training's files and flags do not set
  std::string interface, health_config;
  int port = 0, max_restarts = 0, spares = 0;
  int gpus_per_node = 0;  ///< that each host must have, with a rank for each; 0: not asked for
  double stop_seconds = 120, wait_minutes = 10;
  double start_seconds = -1;  ///< below 0: JobFacts::start_seconds
  int max_requeues = 0;
  std::string log_folder;
  bool dry_run = false, preflight_only = false, skip_preflight = false, drop_bad_hosts = false,
       drop_failed_host = false, any_program = false, requeue = false, times = false;
  std::vector<std::string> command;
  std::string container;  ///< words before the program of each rank, separated by blanks: "apptainer exec IMAGE"
};

/// Facts about the launched command: for `train` its run folder and its data.
struct JobFacts {
  std::string run_folder = ".";
  bool has_status = false;  ///< the command writes run_folder/status.json, and all ranks write into that folder
  /// Without has_status: whether as many ranks write into run_folder; empty: they do not.
  std::function<bool(int ranks)> shares_run_folder = {};
  std::string stop_folder;  ///< its status.json distinguishes a final stop from one to resume; empty: none
  bool inherit_binding = false;
  launch::GpuWish gpus = launch::GpuWish::none;
  bool on_cpus = false;                ///< run.device is cpu
  double start_seconds = 120;          ///< limit for the first sign of a rank
  int64_t run_bytes = 0;               ///< free space needed in the run folder
  std::vector<std::string> files;      ///< must be the same on every host
  launch::RankMemoryPlan rank_memory;  ///< empty: the command's memory is not planned
  /// What of the layout is slow on these hosts; "": nothing. Empty: unknown.
  std::function<std::string(const HostMap& hosts)> layout_warning{};
  hub::Named named;  ///< models and data sets named on the Hugging Face hub
};

/// The program of every rank and its arguments. In a container trireme is found by its PATH.
std::vector<std::string> rank_command(const LaunchRequest& request);

/// Runs the job and returns the exit code of `trireme launch`. Throws Error.
int launch_job(LaunchRequest request, HostSet hosts, JobFacts job);

}  // namespace trireme
