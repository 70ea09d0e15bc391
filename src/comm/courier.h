#pragma once
// Carries messages on a thread of its own, beside compute: it starts them, keeps testing them until they are done, and
// sleeps while nothing moves.

#include <functional>
#include <memory>
#include <vector>

#include "comm/communicator.h"

namespace trireme {

class Courier {
 public:
  using Ticket = uint64_t;  ///< 0: done already

  /// cpus: where the thread runs; empty: where its creator does. progress: moves with each message that is done.
  Courier(Heartbeat* heartbeat, std::vector<int> cpus);
  /// Gives up what is not done, which happens after failures only.
  ~Courier();
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;

  /// `start` is called on the thread, in the order of the calls: it issues one operation on a communicator that from
  /// now on belongs to the thread. Its buffer stays untouched until wait() returned.
  Ticket post(std::function<Handle()> start);
  /// Returns once the message is done. `what` lives as long as the program. Throws what any message failed with
  /// (Error::comm, Error::peer); after that the job must end.
  void wait(Ticket ticket, const char* what, uint64_t bytes);

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace trireme
