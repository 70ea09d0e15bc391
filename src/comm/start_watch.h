#pragma once
// MPI's start waits for all ranks, for ever. This watch ends it: with how many of the ranks of this host have come.

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/launcher.h"

namespace trireme {

struct StartLimit {
  double seconds = 120;
  const char* option = "";  ///< that sets it; empty: none does
};

/// Who has come, as far as one host knows.
struct Arrivals {
  int ranks = 0, host_ranks = 0;  ///< of the job, and of it on this host; 0: not told
  std::vector<int> here;          ///< ranks of this host that have come, ascending
};

/// "1 of 2 ranks have come to MPI_Init in 5 s; rank 1 has not: it has ended, or runs another program".
std::string describe(const Arrivals& arrivals, double seconds);

/// From its making to its end this process is seen as come by the other ranks of its host: it holds an abstract socket
/// whose name has the job and the rank, which vanishes with it. When the limit is over before the watch's end, the
/// lowest rank that has come on each host says so, and all of them leave with code 76.
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
  std::string name_;  ///< of the sockets, the rank left out
  int socket_ = -1;
  std::mutex mutex_;  // of ended_
  std::condition_variable changed_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace trireme
