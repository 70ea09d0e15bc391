#pragma once
// Which cores a rank computes on. Launchers bind badly by default (Open MPI pins one or two ranks to one core each), so
// Trireme finds out what the job was given on this host, splits it between the host's ranks and binds itself.

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// Processors (hardware threads) as the system numbers them, ascending.
using Cpus = std::vector<int>;

/// "0-3,8" to {0, 1, 2, 3, 8}; Throws Error::data for other text. And the reverse.
Cpus parse_cpu_list(std::string_view text);
std::string format_cpu_list(const Cpus& cpus);

/// Hardware threads of each physical core of this machine, in the order in which neighbours share caches and sockets.
std::vector<Cpus> physical_cores();
/// Hardware threads of each socket; empty if the system does not report them.
std::vector<Cpus> sockets();
/// Number of sockets that have at least one of the processors.
size_t sockets_of(const std::vector<Cpus>& sockets, const Cpus& cpus);
/// Where the calling thread may run now.
Cpus inherited_cpus();
/// The job's processors on this host: those of the mpirun or MPI daemon that started this process and bound each rank
/// more narrowly; without one among the ancestors (srun, a shell), inherited_cpus() before apply(). `root`: where /proc
/// is; tests use another.
Cpus offered_cpus(const std::filesystem::path& root = "/");

struct CoreRequest {
  int local_rank = 0;           ///< among the ranks of this host
  std::vector<Cpus> offered;    ///< offered_cpus() of each of them
  std::vector<Cpus> sockets;    ///< sockets() of the host
  std::vector<Cpus> near{};     ///< of each of them: processors near its GPU; empty: of no importance
  bool inherit = false;         ///< launch.bind inherit: keep what the launcher bound, offered[local_rank]
  int threads = 0;              ///< launch.threads; 0: all of the share
  int communication_cores = 0;  ///< comm.cores, for the exchange thread alone
  bool communicates = false;    ///< more than one rank in the job
  double quota = 0;             ///< CgroupLimits::cpus of the host; 0: none
};

/// Where a rank's threads run.
struct CorePlan {
  int threads = 1;
  Cpus cpus;                      ///< all of the rank's, for its other threads
  std::vector<Cpus> thread_cpus;  ///< by compute thread; empty: as inherited
  Cpus exchange_cores;            ///< of the exchange thread; empty: as inherited
  std::string text;               ///< "cores 0-1, 2 threads, gradients are exchanged there too"
  std::vector<std::string> warnings;
};

/// Pure: cores as physical_cores() gives them. Offers of several ranks that do not overlap are kept; if they overlap,
/// the host's ranks split their union into equal numbers of physical cores. With `near` those that are near the same
/// processors split these, and all compute with as many threads as the one with the fewest cores. One compute thread
/// per core, pinned to it; the exchange thread gets reserved cores, else the cores' second hardware threads, else it
/// shares the compute cores. More ranks than cores, a quota below the cores, more threads than cores and a rank on
/// several sockets are warnings. Throws Error::config if no core is left for compute.
CorePlan plan_cores(const std::vector<Cpus>& cores, const CoreRequest& request);

/// Sets the number of OpenMP threads and binds them and the calling thread. Throws Error::config.
void apply(const CorePlan& plan);
/// Restricts the calling thread, and threads that it starts, to these processors. Throws Error::config naming them if
/// the system refuses.
void pin_this_thread(std::span<const int> cpus);

/// While it exists, the calling thread has the affinity from before apply(); programs that it starts inherit that.
class AsBeforeBinding {
 public:
  AsBeforeBinding();
  AsBeforeBinding(const AsBeforeBinding&) = delete;
  AsBeforeBinding& operator=(const AsBeforeBinding&) = delete;
  ~AsBeforeBinding();

 private:
  Cpus bound_;  // empty: nothing was bound
};

}  // namespace trireme
