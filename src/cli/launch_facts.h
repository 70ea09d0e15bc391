#pragma once
#include <string>
#include <vector>

#include "cli/launch_job.h"

namespace trireme {

/// What the launched command says about itself: `train` names its run folder and its data.
struct JobFacts {
  std::string run_folder = ".";
  bool has_status = false;  ///< the command writes run_folder/status.json
  std::string stop_folder;  ///< whose status.json tells a stop for good from one to come back from; empty: none
  bool inherit_binding = false;
  std::vector<std::string> flags;  ///< to add to the command
  std::vector<std::string> files;  ///< must be the same on every host
};

/// Throws Error::usage, naming the nearest, when the first word is neither a command of trireme nor a flag.
void require_command(const std::vector<std::string>& command);

/// Throws what reading the command's own files and flags throws.
JobFacts describe_job(const LaunchRequest& request);

/// The program of every rank and its arguments.
std::vector<std::string> rank_command(const LaunchRequest& request, const JobFacts& job);

/// Path of this program.
std::string own_path();

}  // namespace trireme
