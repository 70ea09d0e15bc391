#pragma once
#include <string>
#include <vector>

#include "cluster/launch/job.h"
#include "comm/launcher.h"

namespace trireme {

/// Throws Error::usage with the nearest name if the first word is neither a command of trireme nor a flag.
void require_command(const std::vector<std::string>& command);

/// Throws the errors of reading the command's files and flags.
JobFacts describe_job(const LaunchRequest& request);

/// Whether mpirun or srun has started this process as a rank of a job, so that launch does not start ranks. An srun
/// step of one task is a shell or a node agent, not a job.
bool is_rank(const Launcher& starter);

/// Replaces this process by the launched command, as `accelerate launch` does under mpirun. `file`: --config-file or
/// empty. Rank 0 throws Error::mismatch if the launcher started another number of ranks than requested, and
/// Error::usage for options that only launch itself supports (hosts, preflight, restarts); the other ranks return its
/// exit code.
int become_rank(LaunchRequest request, const std::string& file, const Launcher& starter);

}  // namespace trireme
