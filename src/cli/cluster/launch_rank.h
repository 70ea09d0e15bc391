#pragma once
#include <string>

#include "cluster/launch/job.h"
#include "comm/launcher.h"

namespace trireme {

/// Whether mpirun or srun has started this process as a rank of a job, so that launch has none to start. An srun step
/// of one task is a shell or a node agent and no job.
bool is_rank(const Launcher& starter);

/// Becomes the launched command in place of this process, as `accelerate launch` does under mpirun. `file`:
/// --config-file or empty. Rank 0 throws Error::mismatch when the starter made another number of ranks than was asked
/// for and Error::usage for what only launch itself can do (hosts, preflight, restarts); the other ranks return its
/// exit code.
int become_rank(LaunchRequest request, const std::string& file, const Launcher& starter);

}  // namespace trireme
