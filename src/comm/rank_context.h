#pragma once
// A rank's environment, made by its process (comm/process.h) or, if ranks are threads of one process
// (comm/local/local_group.h), by the code that starts them. Code that trains uses this instead of the process, so that
// one process can hold several ranks. Per-process state (signal handlers, core binding, exit codes, the log's identity)
// stays with the program above.

#include <functional>
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "comm/host_map.h"

namespace trireme {

class Process;
class Heartbeat;

/// Belongs to the rank's main thread, which is the issuing thread of `world`. Borrows what it refers to.
struct RankContext {
  Communicator& world;                  ///< all ranks; it reports to `progress`
  std::string host;                     ///< of this rank; local ranks may have different ones
  HostMap hosts;                        ///< of all ranks
  std::string log_name;                 ///< prefix of this rank's messages (log::Identity); empty: a job of one
  Heartbeat* heartbeat = nullptr;       ///< records what this rank is doing; nullptr: not recorded
  std::function<bool()> stop_requested  ///< a stop was asked for on this rank; called at any time by its main thread
      = [] { return false; };
  int threads = 1;  ///< of a parallel region

  int rank() const { return world.rank(); }
  int size() const { return world.size(); }
  int local_rank() const { return hosts.local_rank(rank()); }  ///< among the ranks of this host
  int local_size() const { return hosts.local_size(rank()); }
  bool one_host() const { return hosts.hosts() == 1; }
  /// A new group of all ranks for one other thread, with the world's heartbeat. Collective.
  std::unique_ptr<Communicator> reporting_group() const;
};

/// The process as a rank. `threads`: of its core plan; `stop_requested`: stop::requested (base/stop.h) and other
/// sources. The process outlives the context.
RankContext rank_context(Process& process, int threads, std::function<bool()> stop_requested);

}  // namespace trireme
