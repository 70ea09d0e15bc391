#pragma once
// Where MPI's ranks of one host keep the memory that they share.

#include <string>

namespace trireme {

/// Before MPI starts: where /dev/shm has too little room for the ranks on this host, of which there are at most
/// most_ranks, tells Open MPI and UCX (MPICH) to use files in TMPDIR or /tmp, unless the user has told them something
/// himself. Returns what to say about it, empty when /dev/shm is large enough: the libraries themselves end the job
/// without naming it, or take slow TCP.
std::string arrange_shared_memory(int most_ranks);

}  // namespace trireme
