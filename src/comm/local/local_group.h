#pragma once
// Ranks as threads of one process, with the whole Communicator interface: what runs over MPI can be run, debugged and
// watched by the thread sanitizer in one process, and faults, delays and other hosts can be made up. For tests; the
// program itself runs on comm/single and comm/mpi.
//
// A collective reads what every rank gave once all have come, a message once both sides have; each rank's result is
// written by its own thread, in test() or wait(). Sums are made in rank order, so every member gets the same bits.
// Ranks whose calls do not fit each other are told so: Error::comm with both calls.

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

/// A call of one rank as those see it who delay it.
struct LocalCall {
  int rank;               ///< in the world
  std::string_view name;  ///< "send", "all_reduce", ...
  int64_t number;         ///< calls that this rank made on this communicator before
};
/// How much later a call's handle is done, and its result written, than it could be. Called by all ranks at once.
using LocalDelay = std::function<std::chrono::microseconds(const LocalCall&)>;
/// Evenly between 0 and `longest`, a pure function of the seed, the rank and the call's number.
LocalDelay random_delays(uint64_t seed, std::chrono::microseconds longest);

struct LocalOptions {
  std::vector<std::string> hosts{};  ///< one name per rank; empty: all ranks are on this host
  LocalDelay delay{};
  /// A send is done once its receive is posted; else at once, its buffer having been copied.
  bool rendezvous = false;
  /// Nothing moves by itself: what all have posted takes place once each rank that waits for it has called test() or
  /// wait() again, on any of its handles.
  bool progress_in_test = false;
  std::shared_ptr<std::atomic<int64_t>> live{};  ///< counts groups, members and operations that exist, where given
};

/// What was called needs a rank that is gone. ErrorKind::peer; names the rank in the world.
class LostMember : public Error {
 public:
  explicit LostMember(const std::string& message) : Error(ErrorKind::peer, message) {}
};

/// One member. A member destroyed while an exception unwinds was lost: its group is revoked. One destroyed otherwise
/// has left: what it took part in can still end, what needs it fails on the others with LostMember. A handle given up
/// on before its operation took place (Handle::abandon) is safe here: nobody touches its buffers any more, and
/// collectives that needed it fail on the others.
class LocalCommunicator : public Communicator {
 public:
  virtual const std::string& host(int rank) const = 0;
  /// Rank `lost` of this group is gone: every pending and later call on this group, and on those split from it, fails
  /// with LostMember on every member. From any thread; the first call stands.
  virtual void revoke(int lost, std::string_view why) = 0;
};

/// The world's members in rank order, each for a thread of its own. Groups split from them are LocalCommunicators too.
std::vector<std::unique_ptr<LocalCommunicator>> make_local_group(int size, LocalOptions options = {});

/// The member as a rank of one thread, "rank R" in the log, that nobody asks to stop. The world reports to `progress`
/// from here on.
RankContext rank_context(LocalCommunicator& world, Heartbeat* heartbeat);

}  // namespace trireme
