#include <fmt/ranges.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "comm/mpi.h"
#include "comm/mpi/library.h"
#include "comm/mpi/mpi_communicator.h"

namespace trireme::mpi {
namespace {

constexpr std::chrono::milliseconds kTimeToPassOn{300};

constexpr const char* kLevels[] = {"single", "funneled", "serialized", "multiple"};

}  // namespace

std::string library() {
  if (!is_open()) {
    const std::vector<std::string> abis = usable_abis(this_machine());
    return abis.empty() ? "none"
                        : fmt::format("{}, opened when mpirun or srun has started the process", fmt::join(abis, ", "));
  }
  char text[8192] = "";
  adapter().library(text, sizeof text);
  std::string version(text);
  version = version.substr(0, version.find_first_of(",\n"));  // the rest describes its package
  if (version.starts_with("MPICH")) version = "MPICH " + version.substr(version.find_last_of(" \t") + 1);
  return version;
}

std::string usable() {
  const std::vector<std::string> abis = usable_abis(this_machine());
  if (abis.empty()) return "off";
  const bool open_mpi = abis.front() == "openmpi";
  return abis.size() > 1 && open_mpi ? "any" : open_mpi ? "openmpi" : "mpich";
}

bool is_open_mpi() { return is_open() && std::string_view(adapter().abi) == "openmpi"; }

std::string open(const std::string& wanted, const Launcher& launcher) {
  const Machine machine = this_machine();
  const Library library = choose_library(
      wanted, launcher, [](const char* name) { return std::getenv(name); }, machine);
  if (library.abi.empty()) return library.why;
  open_library(library);
  log::debug("MPI {}, {}", library.path, library.why);
  return {};
}

void start() {
  // Gradients travel on their own thread while the main thread reduces scalars.
  int given = 0;
  check(adapter().start(&given), "MPI_Init_thread");
  require(given == 3, ErrorKind::comm,
          "{} provides only thread level \"{}\", but trireme needs \"multiple\" (gradients are exchanged on their own "
          "thread); "
          "use an MPI library built with it",
          library(), kLevels[given]);
}

void finish() { check(adapter().finish(), "MPI_Finalize"); }

void abort(int code) {
  // MPICH's launcher then ends all processes and itself at once and loses output that it has read but not printed, such
  // as the reason for the job's end.
  std::this_thread::sleep_for(kTimeToPassOn);
  adapter().abort(code);
  std::_Exit(code);
}

std::unique_ptr<Communicator> world(int max_count) {
  Object copy = 0;
  check(adapter().world(&copy), "MPI_Comm_dup");
  return make_communicator(copy, max_count);
}

std::unique_ptr<Communicator> host_group() {
  Object group = 0;
  check(adapter().host_group(&group), "MPI_Comm_split_type");
  return make_communicator(group, kMaxCount);
}

}  // namespace trireme::mpi
