#pragma once
// MPI's start waits for all ranks forever. This watch ends it and reports how many ranks of this host have started.

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/launcher.h"

namespace trireme {

struct StartLimit {
  double seconds = 120;
  const char* option = "";   ///< that sets it; empty: none
  std::string mpi = "auto";  ///< the library to be opened, as run.mpi
};

/// Ranks that have reached MPI's start, as far as one host knows.
struct Arrivals {
  int ranks = 0, host_ranks = 0;  ///< of the job, and on this host; 0: unknown
  std::vector<int> here;          ///< ranks of this host that have arrived, ascending
};

/// "1 of 2 ranks have reached MPI_Init in 5 s; rank 1 has not: it has ended or runs another program".
std::string describe(const Arrivals& arrivals, double seconds);

/// While it exists, the other ranks of this host see that this rank has arrived: it holds an abstract socket named
/// after the job and the rank. If the limit ends first, the lowest arrived rank of each host reports it, and all
/// arrived ranks exit with code 76.
class StartWatch {
 public:
  StartWatch(const Launcher& launcher, const StartLimit& limit);
  ~StartWatch();
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

 private:
  void announce();
  Arrivals arrivals() const;
  bool speaks() const;
  void watch();
  bool ended_within(double seconds);

  Launcher launcher_;
  StartLimit limit_;
  std::string name_;  ///< of the sockets, without the rank
  int socket_ = -1;
  std::mutex mutex_;  // of ended_
  std::condition_variable changed_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace trireme
