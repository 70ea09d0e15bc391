// A build without MPI.

#include <cstdlib>

#include "base/error.h"
#include "comm/collectives.h"
#include "comm/mpi.h"

namespace trireme::mpi {
namespace {

[[noreturn]] void refuse() {
  fail(ErrorKind::comm, "this build of trireme has no MPI; configure with -DTRIREME_MPI=openmpi or mpich");
}

}  // namespace

bool built() { return false; }
std::string library() { return "none"; }
bool is_open_mpi() { return false; }
void start() { refuse(); }
void finish() { refuse(); }
void abort(int code) { std::_Exit(code); }
std::unique_ptr<Communicator> world(int) { refuse(); }
std::unique_ptr<Communicator> host_group() { refuse(); }

}  // namespace trireme::mpi

namespace trireme {

std::unique_ptr<Collectives> make_mpi_collectives() {
  fail(ErrorKind::comm, "this build of trireme has no MPI; configure with -DTRIREME_MPI=openmpi or mpich");
}

}  // namespace trireme
