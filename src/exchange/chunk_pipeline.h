#pragma once
// Moves chunks of arrays between ranks, a few at a time: round, send to owners, add in rank order, round and, if all
// ranks get the sums, send to all (RankOrderSum). Never blocks; the caller keeps calling advance(). Also does each
// half alone: sums that stay with their owners, and sums sent to all. Ranks of one host read each other's rounded
// values in place (comm/shared_region.h): the messages are the same, but empty. A rank overwrites its contribution for
// another rank once that rank has announced its sum, and its own sum once the others have announced their contributions
// to the next chunk of the same slot, which implies that they have finished the previous one.

#include <array>
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "comm/shared_region.h"
#include "comm/stream_group.h"
#include "ops/ops.h"
#include "tensor/arena.h"

namespace trireme {

/// What ranks do with a chunk: sum at the owners, also send the sums to all, or only send the owners' existing sums.
enum class Exchange : uint8_t { reduce, reduce_and_share, share };

/// Elements [first, first + limit) of every rank's piece of an array.
struct Chunk {
  View array;     ///< [n] f32
  Pieces pieces;  ///< stay until the chunk has ended
  int64_t first = 0, limit = 0;

  int64_t begin(int owner) const;
  int64_t length(int owner) const;
};

/// Elements of the longest piece.
int64_t longest_of(Pieces pieces);

class ChunkPipeline {
 public:
  /// Determines the size of the buffers.
  struct Route {
    int ranks = 1;
    DType wire = DType::bf16;
    Exchange exchange = Exchange::reduce_and_share;
    bool one_host = false;  ///< all ranks are on this host: they share memory if the system allows it
  };
  /// Collective. Borrows everything except the route; the thread that calls all other functions is the group's issuing
  /// thread and works on context's stream. `longest`: most elements that a chunk has per rank.
  ChunkPipeline(Communicator& group, Ops& ops, Context& context, const Route& route, int64_t longest);
  /// Memory for chunks in flight.
  static size_t bytes_for(const Route& route, int64_t longest);
  /// Most elements of a chunk of at most `bytes`: fewer if the buffers of many ranks would exceed 64 MiB.
  static int64_t chunk_limit(const Route& route, size_t bytes);

  bool full() const { return started_ - ended_ == slots_.size() || started_ - summed_ == most_summing_; }
  bool empty() const { return started_ == ended_; }
  /// Must not be called while full(). Every rank starts the same chunks in the same order, once their elements are
  /// complete.
  void start(const Chunk& chunk);
  /// Makes progress where possible. True: something moved.
  bool advance();
  /// After a failure: abandons the operations. This object must stay until the process ends, because MPI may still
  /// write into its buffers.
  void abandon();

  size_t chunks_started() const { return started_; }   ///< since construction
  size_t chunks_done() const { return ended_; }        ///< since construction
  uint64_t bytes_sent() const { return bytes_sent_; }  ///< since construction

 private:
  /// Buffers and operations of one chunk. Vectors are by peer; this rank's own entries are unused. Views: [longest]
  /// wire.
  struct Slot {
    enum class Phase { idle, summing, gathering } phase = Phase::idle;
    Chunk chunk;
    View reduced;
    std::vector<View> outgoing, contributions;
    std::vector<View> gathered;           ///< unused if the sums stay with their owners
    std::vector<Handle> sends, arrivals;  ///< of contributions
    std::vector<Handle> sum_sends, sum_arrivals;
    std::vector<char> awaited;  ///< the peer's sum has not arrived yet or is not stored yet

    auto all_handles() { return std::array{&sends, &arrivals, &sum_sends, &sum_arrivals}; }
    auto all_views() { return std::array{&outgoing, &contributions, &gathered}; }
  };

  static void take_buffers(Slot& slot, Arena& arena, const Route& route, int64_t longest);
  void share_buffers(int64_t longest);
  template <class Do>
  void for_peers(Do action);
  /// The payload of a message about x.
  View payload(View x) const;
  void send(Handle& handle, View x, int peer, int tag);
  void sum(Slot& slot);
  bool gather(Slot& slot);

  Communicator& group_;
  Ops& ops_;
  Context& context_;
  Route route_;
  std::optional<SharedRegion> shared_;  ///< none: messages carry the values
  Arena buffers_;
  std::vector<Slot> slots_;
  std::vector<ConstView> terms_;                 ///< of the current sum
  size_t most_summing_;                          ///< chunks whose contributions are in flight
  size_t started_ = 0, summed_ = 0, ended_ = 0;  ///< chunk i uses slot i modulo the number of slots
  uint64_t bytes_sent_ = 0;
};

}  // namespace trireme
