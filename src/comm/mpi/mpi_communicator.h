#pragma once
// What the files of this folder share.

#include <mpi.h>

#include <memory>
#include <string_view>

#include "comm/communicator.h"

namespace trireme::mpi {

/// Takes ownership of `comm`. No MPI call gets more than `max_count` elements.
std::unique_ptr<Communicator> make_communicator(MPI_Comm comm, int max_count);

/// Throws Error::comm naming the call and MPI's own reason unless code is MPI_SUCCESS.
void check(int code, std::string_view call);

}  // namespace trireme::mpi
