#pragma once
#include <mpi.h>

#include <memory>

#include "comm/communicator.h"

namespace trireme::mpi {

/// Takes ownership of `comm`. No MPI call gets more than `max_count` elements.
std::unique_ptr<Communicator> make_communicator(MPI_Comm comm, int max_count);

}  // namespace trireme::mpi
