#include "comm/process.h"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <exception>

#include "base/count.h"
#include "base/error.h"
#include "base/host.h"
#include "base/log.h"
#include "comm/agreement.h"
#include "comm/mpi.h"

namespace trireme {
namespace {

std::string started(const Launcher& launcher) {
  return fmt::format("{} started by {} ({}={})", count_text(launcher.size, "process"), launcher.name, launcher.variable,
                     launcher.size);
}

/// Known failures, found before MPI starts; some libraries end the process instead of returning an error.
void check_before_start(const Launcher& launcher) {
  if (launcher.size == 1) return;
  require(launcher.kind != Launcher::Kind::torch, ErrorKind::mismatch,
          "{} would each train alone: torchrun does not connect MPI ranks; start with `trireme launch`, mpirun or srun",
          started(launcher));
  require(
      launcher.connects, ErrorKind::mismatch,
      "{} would each train alone: srun gave them no PMI; start with `srun --mpi=pmix` (Open MPI), `srun --mpi=pmi2` "
      "(MPICH, Intel MPI), or mpirun inside the allocation",
      started(launcher));
}

void check_size(const Launcher& launcher, int size) {
  // A starter may report a rank without a size; a world of one cannot have rank 1.
  if ((launcher.size == 0 || launcher.size == size) && launcher.rank < size) return;
  const std::string who = launcher.size > 0 ? started(launcher) + " each see"
                                            : fmt::format("a process started by {} as rank {} ({}) sees", launcher.name,
                                                          launcher.rank, launcher.variable);
  fail(ErrorKind::mismatch,
       "{} a world of {}: {} did not connect through that starter; use the mpirun that belongs to it, or name the MPI "
       "library of the one that you use with --run.mpi or TRIREME_MPI (openmpi, mpich, abi or a path)",
       who, size, mpi::library());
}

// Measured: 4 MiB per rank of Open MPI's vader and 4.3 MB of UCX before the first message.
constexpr uint64_t kBytesPerRank = uint64_t{8} << 20;

/// Ranks on this host according to the starter; `most` if unknown.
int local_ranks(int most) {
  for (const char* variable : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE"}) {
    const char* text = std::getenv(variable);
    if (text && std::atoi(text) > 0) return std::atoi(text);
  }
  return most;
}

/// Before MPI starts: if /dev/shm is too small for the ranks on this host (at most most_ranks), makes Open MPI and UCX
/// (MPICH) use files in TMPDIR or /tmp, unless the user has set a place. Returns the warning, empty if /dev/shm is
/// large enough. The libraries themselves end the job without naming the cause, or use slow TCP.
std::string arrange_shared_memory(int most_ranks) {
  const std::string device = "/dev/shm";
  const int ranks = local_ranks(most_ranks);
  struct statvfs info {};
  const bool there = statvfs(device.c_str(), &info) == 0;
  const uint64_t free = there ? uint64_t{info.f_bavail} * info.f_frsize : 0;
  const uint64_t needed = static_cast<uint64_t>(ranks) * kBytesPerRank;
  if (free >= needed) return {};
  const char* temporary = std::getenv("TMPDIR");
  const std::string folder = temporary && *temporary ? temporary : "/tmp";
  for (const char* variable : {"OMPI_MCA_btl_vader_backing_directory", "UCX_POSIX_DIR"})
    setenv(variable, folder.c_str(), 0);
  return fmt::format(
      "{} has {:.1f} MB free, {} on this host need {:.1f} MB: they share memory through files in {} instead, which may "
      "be slower; make it larger (docker run --shm-size, or mount -o remount,size=... {})",
      device, static_cast<double>(free) / 1e6, count_text(ranks, "rank"), static_cast<double>(needed) / 1e6, folder,
      device);
}

}  // namespace

void name_this_rank(const Launcher& launcher) {
  if (launcher.size > 1 && launcher.rank >= 0) log::set_identity(launcher.rank, launcher.size, host_name());
}

Process::Process() : Process(detect_launcher()) {}

Process::Process(const Launcher& launcher, const StartLimit& limit) : launcher_(launcher), host_(host_name()) {
  if (launcher_.kind != Launcher::Kind::none) check_before_start(launcher_);
  const bool started_by_one = launcher_.kind != Launcher::Kind::none;
  const std::string why_none = started_by_one ? mpi::open(limit.mpi, launcher_) : "";
  require(why_none.empty() || launcher_.size == 1, ErrorKind::mismatch,
          "{} would each train alone: {}; install the MPI of that starter, or name its library with --run.mpi or "
          "TRIREME_MPI (openmpi, mpich, abi or a path)",
          launcher_.size > 0 ? started(launcher_) : "processes started by " + launcher_.name, why_none);
  if (started_by_one && why_none.empty()) {
    start_mpi(limit);
  } else {
    world_ = make_single();
  }
  world_->report_to(&heartbeat_);
  if (size() > 1) log::set_identity(rank(), size(), host_);
}

void Process::start_mpi(const StartLimit& limit) {
  name_this_rank(launcher_);
  const std::string small = arrange_shared_memory(std::max(launcher_.size, 1));
  const StartWatch watch(launcher_, limit);
  mpi::start();
  mpi_ = true;
  try {
    world_ = mpi::world();
    check_size(launcher_, world_->size());
    hosts_ = HostMap::gather(*world_, *mpi::host_group());
    if (!small.empty() && local_size() > 1 && local_rank() == 0) log::warning("{}: {}", host_, small);
  } catch (...) {
    world_.reset();
    mpi::finish();  // all ranks see the same sizes, so all reach this line
    throw;
  }
}

Process::~Process() {
  if (!mpi_ || std::uncaught_exceptions() > 0) return;
  world_.reset();
  try {
    mpi::finish();
  } catch (const Error& e) {
    log::warning("{}", e.what());  // the work is done and saved
  }
}

int Process::run(const std::function<int()>& body) {
  if (size() == 1) return body();
  int code = 1;
  try {
    return body();
  } catch (const CommonError& e) {
    if (rank() == 0) log::error("{}", e.what());
    return exit_code(e.kind());
  } catch (const Error& e) {
    code = exit_code(e.kind());
    log::error("{}", e.what());
  } catch (const std::bad_alloc&) {
    log::error("out of memory");
  } catch (const std::exception& e) {
    log::error("{}", e.what());
  }
  abort(code);
}

void Process::abort(int code) const {
  if (mpi_) mpi::abort(code);
  std::_Exit(code);
}

}  // namespace trireme
