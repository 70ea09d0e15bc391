#pragma once
// The only access to the MPI library. These functions are defined in comm/mpi: with MPI in mpi_*.cc; without it
// absent.cc raises, so that no other code depends on the build.

#include <memory>
#include <string>

#include "comm/communicator.h"

namespace trireme::mpi {

/// Whether this binary was built with MPI.
bool built();
/// "Open MPI v4.1.4", "MPICH 4.0.2", "none". Callable before start().
std::string library();
/// Whether this binary was built with Open MPI.
bool is_open_mpi();
/// MPI_Init_thread with MPI_THREAD_MULTIPLE. Once per process. Throws Error::comm if the library gives a lower level.
void start();
/// MPI_Finalize. Every communicator must have been destroyed.
void finish();
/// Ends every process of the job with this code.
[[noreturn]] void abort(int code);

/// A duplicate of all started processes; `max_count` is the largest element count of one MPI call (smaller in tests).
constexpr int kMaxCount = 1 << 30;
std::unique_ptr<Communicator> world(int max_count = kMaxCount);
/// Processes that share memory, that is, one host; rank order as in the world.
std::unique_ptr<Communicator> host_group();

}  // namespace trireme::mpi
