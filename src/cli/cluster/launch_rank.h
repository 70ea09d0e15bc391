#pragma once
#include <string>

#include "cluster/launch/job.h"
#include "comm/launcher.h"

namespace trireme {

/// Whether mpirun or srun has started this process as a rank of a job, so that launch does not start ranks. An srun
/// step of one task is a shell or a node agent, not a job.
bool is_rank(const Launcher& starter);

/// Replaces this process by the launched command, as `accelerate launch` does under mpirun. `file`: --config-file or
/// empty. Rank 0 throws Error::mismatch if the launcher started another number of ranks than requested, and
/// Error::usage for options that only launch itself supports (hosts, preflight, restarts); the other ranks return its
/// exit code.
int become_rank(LaunchRequest request, const std::string& file, const Launcher& starter);

}  // namespace trireme
