#pragma once
// One launched job: its hosts looked at, its ranks started, watched, stopped, and started again where asked.

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/host_source.h"
#include "cluster/launch/remote_shell.h"
#include "cluster/launch/starter.h"
#include "hub/place.h"

namespace trireme {

struct LaunchRequest {
  HostRequest hosts;
  PlacementRequest placement;
  launch::StarterRequest starter;
  launch::RemoteOptions remote;
  std::vector<std::string> variables;  ///< NAME=VALUE
  std::string interface, health_config;
  std::string default_dtype;  ///< for training whose own files and flags do not say it
  int port = 0, max_restarts = 0, spares = 0;
  double stop_seconds = 120, wait_minutes = 10;
  double start_seconds = -1;  ///< below 0: JobFacts::start_seconds
  int max_requeues = 0;
  std::string log_folder;
  bool dry_run = false, preflight_only = false, skip_preflight = false, drop_bad_hosts = false,
       drop_failed_host = false, any_program = false, requeue = false, times = false;
  std::vector<std::string> command;
};

/// What the launched command says about itself: `train` names its run folder and its data.
struct JobFacts {
  std::string run_folder = ".";
  bool has_status = false;  ///< the command writes run_folder/status.json
  std::string stop_folder;  ///< whose status.json tells a stop for good from one to come back from; empty: none
  bool inherit_binding = false;
  double start_seconds = 120;      ///< that the first sign of a rank may take
  int64_t run_bytes = 0;           ///< free space that the run folder needs
  std::vector<std::string> flags;  ///< to add to the command
  std::vector<std::string> files;  ///< must be the same on every host
  hub::Named named;                ///< by names of the Hugging Face hub
};

/// The program of every rank and its arguments.
std::vector<std::string> rank_command(const LaunchRequest& request, const JobFacts& job);

/// Does all of it and returns the exit code of `trireme launch`. Throws Error.
int launch_job(LaunchRequest request, HostSet hosts, JobFacts job);

}  // namespace trireme
