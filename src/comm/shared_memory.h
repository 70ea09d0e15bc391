#pragma once
// Where MPI places the shared memory of one host's ranks.

#include <string>

namespace trireme {

/// Before MPI starts: if /dev/shm is too small for the ranks on this host (at most most_ranks), makes Open MPI and UCX
/// (MPICH) use files in TMPDIR or /tmp, unless the user has set a place. Returns the warning, empty if /dev/shm is
/// large enough. The libraries themselves end the job without naming the cause, or use slow TCP.
std::string arrange_shared_memory(int most_ranks);

}  // namespace trireme
