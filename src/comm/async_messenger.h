#pragma once
// Issues and completes messages on its own thread, beside compute: starts them, tests them until they are done, sleeps
// while none completes.

#include <functional>
#include <memory>
#include <vector>

#include "comm/communicator.h"

namespace trireme {

class AsyncMessenger {
 public:
  using Ticket = uint64_t;  ///< 0: done already

  /// cpus: where the thread runs; empty: where its creator does. heartbeat: moves with each message that is done.
  AsyncMessenger(Heartbeat* heartbeat, std::vector<int> cpus);
  /// Abandons what is not done, which happens after failures only.
  ~AsyncMessenger();
  AsyncMessenger(const AsyncMessenger&) = delete;
  AsyncMessenger& operator=(const AsyncMessenger&) = delete;

  /// Calls `start` on the thread, in the order of the calls: it issues one operation on a communicator that belongs to
  /// the thread from now on. Its buffer stays untouched until wait() returned.
  Ticket post(std::function<Handle()> start);
  /// Returns once the message is done. `what` exists as long as the program. Throws the error of any message
  /// (Error::comm, Error::peer); after that the job must end.
  void wait(Ticket ticket, const char* what, uint64_t bytes);

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace trireme
