#pragma once
// Chunks of an array on their way between ranks, a few at a time: round, send to owners, add in rank order, round and,
// where everyone is to have the sums, send to everyone (optim/reducer.h). Never blocks; the caller keeps calling
// advance(). Each step alone, too: sums that stay with their owners, and their way to everyone.
//
// Ranks of one host read each other's rounded values where they lie (comm/shared_region.h): the messages are the same,
// but empty. A rank overwrites what it wrote for another one once that one's sum has been told, and its own sum once
// the others' contributions to the chunk that comes into the same slot have been told: they end a chunk before.

#include <array>
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "comm/shared_region.h"
#include "ops/ops.h"
#include "optim/ownership.h"
#include "tensor/arena.h"

namespace trireme {

/// What a chunk's ranks do: add up at the owners, tell everyone the sums too, or tell sums that the owners have
/// already.
enum class Exchange : uint8_t { reduce, reduce_and_share, share };

class ChunkPipeline {
 public:
  /// What decides how large the buffers are.
  struct Route {
    int ranks = 1;
    DType wire = DType::bf16;
    Exchange exchange = Exchange::reduce_and_share;
    bool one_host = false;  ///< all ranks are on this host: they share memory where the system lets them
  };
  /// Collective. Borrows everything but the route; the calling thread of all other functions is the group's issuing
  /// thread, which works on context's stream. array: [n] f32. `longest`: most elements that a chunk has per rank.
  ChunkPipeline(View array, Communicator& group, Ops& ops, Context& context, const Route& route, int64_t longest);
  /// Memory for chunks on their way.
  static size_t bytes_for(const Route& route, int64_t longest);
  /// Most elements of a chunk of at most `bytes`: fewer where the buffers of many ranks would else exceed 64 MiB.
  static int64_t chunk_limit(const Route& route, size_t bytes);

  bool full() const { return started_ - ended_ == slots_.size() || started_ - summed_ == most_summing_; }
  bool empty() const { return started_ == ended_; }
  /// Not while full(). Every rank starts the same chunks in the same order, when their elements are complete.
  void start(const StripeChunk& chunk);
  /// Does what has become possible. True: something has.
  bool advance();
  /// After a failure: gives the operations up. This object must stay until the process ends, because MPI may still
  /// write into its buffers.
  void abandon();

  size_t chunks_done() const { return ended_; }        ///< since construction
  uint64_t bytes_sent() const { return bytes_sent_; }  ///< since construction

 private:
  /// Buffers and operations of one chunk. Vectors are by peer; this rank's own entries are unused. Views: [longest]
  /// wire.
  struct Slot {
    enum class Phase { idle, summing, gathering } phase = Phase::idle;
    StripeChunk chunk;
    View reduced;
    std::vector<View> outgoing, contributions;
    std::vector<View> gathered;           ///< unused where the sums stay with their owners
    std::vector<Handle> sends, arrivals;  ///< of contributions
    std::vector<Handle> sum_sends, sum_arrivals;
    std::vector<char> awaited;  ///< the peer has not told its sum yet, or it has not been taken over

    auto all_handles() { return std::array{&sends, &arrivals, &sum_sends, &sum_arrivals}; }
    auto all_views() { return std::array{&outgoing, &contributions, &gathered}; }
  };

  static void take_buffers(Slot& slot, Arena& arena, const Route& route, int64_t longest);
  void share_buffers(int64_t longest);
  template <class Do>
  void for_peers(Do action);
  /// What a message about x carries.
  View payload(View x) const;
  void send(Handle& handle, View x, int peer, int tag);
  void sum(Slot& slot);
  bool gather(Slot& slot);

  View array_;
  Communicator& group_;
  Ops& ops_;
  Context& context_;
  Route route_;
  std::optional<SharedRegion> shared_;  ///< none: messages carry the values
  Arena buffers_;
  std::vector<Slot> slots_;
  std::vector<ConstView> terms_;                 ///< of the sum that is made
  size_t most_summing_;                          ///< chunks whose contributions are on their way
  size_t started_ = 0, summed_ = 0, ended_ = 0;  ///< chunk i lives in slot i modulo their number
  uint64_t bytes_sent_ = 0;
};

}  // namespace trireme
