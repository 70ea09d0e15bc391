#pragma once
// The one worker thread of communication: it begins operations, makes progress on them until they are done, sleeps
// while none moves, keeps the first error, and ends. Whatever travels beside compute runs on one.
//
// Operations are posted to lanes. A lane is like a stream of a device: its operations begin in the order in which they
// were posted, and they count as done in that order, too. Between begin and end several may be under way. Lanes do not
// wait for each other.

#include <chrono>
#include <memory>
#include <vector>

#include "base/time.h"
#include "tensor/device.h"

namespace trireme {

class Heartbeat;

class ProgressThread {
 public:
  /// The thread may share its core with a compute thread. While nothing moves it polls, giving up its core in between,
  /// and after some time without progress it sleeps between polls. Each sleep is a part of that time, so that ranks
  /// that share cores poll less often while they wait long.
  struct Pace {
    Clock::duration patience = std::chrono::microseconds(30);  ///< polls without sleeping
    Clock::duration awaited = std::chrono::milliseconds(2);    ///< the same while a thread waits for an event
    /// A 32nd of the time without progress. At 1 ms each, 16 ranks on 2 cores spent 4 % of their processor time on the
    /// exchange of gradients, with this rule half as much.
    int sleep_part = 32;
    Clock::duration longest_sleep = std::chrono::milliseconds(5);
  };

  struct Turn {
    uint64_t number = 0;  ///< of the round over all operations
    bool first = false;   ///< all earlier operations of the lane are done
  };
  enum class Progress : uint8_t { none, some, done };

  /// Made by any thread, then used by this one only.
  class Operation {
   public:
    virtual ~Operation() = default;
    /// Begins, after the event that it was posted with. False: not yet; no later operation of the lane begins before.
    virtual bool begin() { return true; }
    /// Does what can be done without waiting. Not called again after done. An exception ends the thread.
    virtual Progress advance(const Turn&) = 0;
    /// After a failure. Its buffers must stay until the process ends, because MPI may still write into them.
    virtual void abandon() {}
  };
  using Lane = size_t;

  /// heartbeat: moves with every progress; may be nullptr. cpus: where the thread runs; empty: where its creator does.
  ProgressThread(Heartbeat* heartbeat, std::vector<int> cpus, const Pace& pace);
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  Lane make_lane();
  /// Any thread, this one included. The operation begins once `after` is reached. The event is reached when it and all
  /// earlier operations of its lane are done. Waiting for the event throws the thread's error (Error::comm,
  /// Error::peer); after that the job must end.
  Event post(Lane lane, std::unique_ptr<Operation> operation, Event after = {});
  /// Ends the thread. False: it has failed, or had work left, which is abandoned.
  bool end();

 private:
  class Worker;
  std::shared_ptr<Worker> worker_;
};

}  // namespace trireme
