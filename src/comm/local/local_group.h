#pragma once
// Ranks as threads of one process, with the complete Communicator interface: code for MPI can run under a debugger or
// the thread sanitizer in one process, and faults, delays and several hosts can be simulated. For tests; the program
// itself runs on comm/single and comm/mpi. A collective reads the ranks' inputs once all have called it, a message once
// both sides have; each rank's thread writes its result in test() or wait(). Sums are in rank order, so every member
// gets the same bits. Calls of ranks that do not match raise Error::comm with both calls.

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "comm/communicator.h"
#include "comm/rank_context.h"

namespace trireme {

/// A rank's call, as passed to a delay function.
struct LocalCall {
  int rank;               ///< in the world
  std::string_view name;  ///< "send", "all_reduce", ...
  int64_t number;         ///< number of earlier calls of this rank on this communicator
};
/// The delay until a call's handle is done and its result written. Called by all ranks concurrently.
using LocalDelay = std::function<std::chrono::microseconds(const LocalCall&)>;
/// Uniform from 0 to `longest`, a pure function of the seed, the rank and the call's number.
LocalDelay random_delays(uint64_t seed, std::chrono::microseconds longest);

struct LocalOptions {
  std::vector<std::string> hosts{};  ///< one name per rank; empty: all ranks are on this host
  LocalDelay delay{};
  /// A send is done once its receive is posted; otherwise at once, because its buffer is copied.
  bool rendezvous = false;
  /// No background progress: an operation that all have posted takes place once each rank that waits for it has called
  /// test() or wait() again, on any of its handles.
  bool progress_in_test = false;
  std::shared_ptr<std::atomic<int64_t>> live{};  ///< counts existing groups, members and operations, if given
};

/// The call needs a lost rank. ErrorKind::peer; names the rank in the world.
class LostMember : public Error {
 public:
  explicit LostMember(const std::string& message) : Error(ErrorKind::peer, message) {}
};

/// One member. A member destroyed while an exception unwinds was lost: its group is revoked. One destroyed otherwise
/// has left: operations that it joined can still end, others that need it fail with LostMember. A handle abandoned
/// before its operation took place (Handle::abandon) is safe here: its buffers are not used any more, and collectives
/// that needed it fail on the others.
class LocalCommunicator : public Communicator {
 public:
  virtual const std::string& host(int rank) const = 0;
  /// Marks rank `lost` of this group as lost: every pending and later call on this group, and on those split from it,
  /// fails with LostMember on every member. From any thread; the first call wins.
  virtual void revoke(int lost, std::string_view why) = 0;
};

/// The world's members in rank order, each for one thread. Groups split from them are LocalCommunicators too.
std::vector<std::unique_ptr<LocalCommunicator>> make_local_group(int size, LocalOptions options = {});

/// The member as a rank with one thread, "rank R" in the log, without stop requests. The world reports to `progress`
/// from now on.
RankContext rank_context(LocalCommunicator& world, Heartbeat* heartbeat);

}  // namespace trireme
