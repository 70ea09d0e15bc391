#pragma once
// Plain messages: the network's rate without computation.

#include <cstdint>

#include "comm/collectives.h"
#include "comm/communicator.h"
#include "comm/scalars.h"

namespace trireme::comm_bench {

/// All ranks of a job as the measurements see them. Borrows.
struct Job {
  Communicator& group;  ///< of this thread
  Collectives& library;
  Scalars scalars;  ///< over `group`

  int rank() const { return group.rank(); }
  int ranks() const { return group.size(); }
  /// A barrier that every rank leaves as soon as it can.
  void meet();
};

/// Bytes per second one way, of messages that go to and fro between rank 0 and the last rank; the median of `rounds`.
/// The same on every rank.
double ping_pong_rate(Job& job, int64_t bytes, int rounds);

/// Every rank sends `bytes` to the next one and receives `bytes` from the previous one, in messages of 1 MiB, 8 at a
/// time; buffers hold `bytes`. Returns when this rank's are done.
void two_way(Communicator& group, const void* send, void* receive, int64_t bytes);

/// `bytes` one way in messages of 1 MiB of which 8 are on their way. The sender returns when the receiver has them all.
void send_one_way(Communicator& group, const void* data, int64_t bytes, int peer);
void receive_one_way(Communicator& group, void* data, int64_t bytes, int peer);

/// Sends this rank's number to `to` and returns the number received from `from`.
int64_t exchange_token(Job& job, int to, int from);

}  // namespace trireme::comm_bench
