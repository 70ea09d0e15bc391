#pragma once
// MPI return codes as Error::comm.

#include <mpi.h>

#include <string_view>

namespace trireme::mpi {

/// Throws Error::comm naming the call and MPI's own reason unless code is MPI_SUCCESS.
void check(int code, std::string_view call);

}  // namespace trireme::mpi
