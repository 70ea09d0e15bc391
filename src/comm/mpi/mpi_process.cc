#include <mpi.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/error.h"
#include "comm/mpi.h"
#include "comm/mpi/mpi_communicator.h"

namespace trireme::mpi {
namespace {

constexpr std::chrono::milliseconds kTimeToPassOn{300};

std::string_view level_name(int level) {
  return level == MPI_THREAD_SINGLE       ? "single"
         : level == MPI_THREAD_FUNNELED   ? "funneled"
         : level == MPI_THREAD_SERIALIZED ? "serialized"
                                          : "multiple";
}

}  // namespace

void check(int code, std::string_view call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail(ErrorKind::comm, "{} failed: {}; another rank may have ended, see its messages", call,
       std::string_view(text, static_cast<size_t>(length)));
}

bool built() { return true; }

std::string library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  if (MPI_Get_library_version(text, &length) != MPI_SUCCESS) return "unknown MPI";
  std::string version(text, static_cast<size_t>(length));
  version = version.substr(0, version.find_first_of(",\n"));  // the rest describes its package
  if (version.starts_with("MPICH")) version = "MPICH " + version.substr(version.find_last_of(" \t") + 1);
  return version;
}

bool is_open_mpi() {
#ifdef OMPI_MAJOR_VERSION
  return true;
#else
  return false;
#endif
}

void start() {
  // Gradients travel on their own thread while the main thread reduces scalars.
  int given = MPI_THREAD_SINGLE;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &given), "MPI_Init_thread");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  require(given == MPI_THREAD_MULTIPLE, ErrorKind::comm,
          "{} provides only thread level \"{}\", but trireme needs \"multiple\" (gradients are exchanged on their own "
          "thread); "
          "use an MPI library built with it",
          library(), level_name(given));
}

void finish() { check(MPI_Finalize(), "MPI_Finalize"); }

void abort(int code) {
  // MPICH's launcher then ends all processes and itself at once and loses output that it has read but not printed, such
  // as the reason for the job's end.
  std::this_thread::sleep_for(kTimeToPassOn);
  MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

std::unique_ptr<Communicator> world(int max_count) {
  MPI_Comm copy = MPI_COMM_NULL;
  check(MPI_Comm_dup(MPI_COMM_WORLD, &copy), "MPI_Comm_dup");
  return make_communicator(copy, max_count);
}

std::unique_ptr<Communicator> host_group() {
  int rank = 0;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  MPI_Comm group = MPI_COMM_NULL;
  check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &group), "MPI_Comm_split_type");
  return make_communicator(group, kMaxCount);
}

}  // namespace trireme::mpi
