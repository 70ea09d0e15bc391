#pragma once
// What the files of this folder share.

#include <memory>

#include "comm/communicator.h"
#include "comm/mpi/adapter.h"

namespace trireme::mpi {

/// Takes ownership of `comm`. No MPI call gets more than `max_count` elements.
std::unique_ptr<Communicator> make_communicator(Object comm, int max_count);

}  // namespace trireme::mpi
