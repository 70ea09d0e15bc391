#pragma once
// The only access to an MPI library, which a process opens when a starter has started it (comm/mpi/library.h).

#include <memory>
#include <string>

#include "comm/communicator.h"
#include "comm/launcher.h"

namespace trireme::mpi {

/// The opened library: "Open MPI v4.1.4", "MPICH 4.0.2"; before that the kinds that could be opened here, or "none".
std::string library();
/// What could be opened here: "openmpi", "mpich", "any" for both, "off" for none.
std::string usable();
/// Whether the opened library is Open MPI.
bool is_open_mpi();
/// Opens the library for processes of this starter. wanted: as run.mpi. Empty, or why there is none. Throws
/// Error::config.
std::string open(const std::string& wanted, const Launcher& launcher);
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
