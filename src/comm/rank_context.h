#pragma once
// What a rank is told of the world it runs in: by the process that is the rank (comm/process.h), or, where ranks are
// threads of one process (comm/local/local_group.h), by whoever starts them. What takes part in training takes this
// instead of asking the process, so that several ranks can live in one: everything that a process has but once (signal
// handlers, core binding, exit codes, the log's identity) stays with the program above.

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
  std::string host;                     ///< of this rank; local ranks may be given one each
  HostMap hosts;                        ///< of all ranks
  std::string log_name;                 ///< of this rank's messages (log::Identity); empty: a job of one
  Heartbeat* heartbeat = nullptr;       ///< where this rank says what it is doing; nullptr: nowhere
  std::function<bool()> stop_requested  ///< a stop was asked for on this rank; called at any time by its main thread
      = [] { return false; };
  int threads = 1;  ///< of a parallel region

  int rank() const { return world.rank(); }
  int size() const { return world.size(); }
  int local_rank() const { return hosts.local_rank(rank()); }  ///< among the ranks of this host
  int local_size() const { return hosts.local_size(rank()); }
  bool one_host() const { return hosts.hosts() == 1; }
  /// All ranks as a group of their own, for one other thread, which reports where the world does. Collective.
  std::unique_ptr<Communicator> reporting_group() const;
};

/// The process as a rank. `threads` of its core plan; `stop_requested`: stop::requested (base/stop.h) and what else
/// asks for a stop. The process outlives the context.
RankContext rank_context(Process& process, int threads, std::function<bool()> stop_requested);

}  // namespace trireme
