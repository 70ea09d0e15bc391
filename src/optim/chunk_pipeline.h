#pragma once
// Chunks of an array on their way between ranks, a few at a time: round, send to owners, add in rank order, round and,
// where everyone is to have the sums, send to everyone (optim/reducer.h). Never blocks; the caller keeps calling
// advance().

#include <array>
#include <vector>

#include "comm/communicator.h"
#include "optim/ownership.h"
#include "tensor/arena.h"

namespace trireme {

/// Who has the sums in the end.
enum class SumsAt : uint8_t { owners, everyone };

class ChunkPipeline {
 public:
  /// Borrows array and group; the calling thread of all other functions is the group's issuing thread. `longest`: most
  /// elements that a chunk has per rank.
  ChunkPipeline(std::span<float> array, Communicator& group, DType wire, SumsAt sums, int64_t longest);
  /// Memory for chunks on their way in a group of so many ranks.
  static size_t bytes_for(int ranks, DType wire, SumsAt sums, int64_t longest);
  /// Most elements of a chunk of at most `bytes` in a group of so many ranks: fewer where the buffers of many ranks
  /// would else exceed 64 MiB.
  static int64_t chunk_limit(int ranks, DType wire, SumsAt sums, size_t bytes);

  bool full() const { return started_ - ended_ == slots_.size() || started_ - summed_ == most_summing_; }
  bool empty() const { return started_ == ended_; }
  /// Not while full(). Every rank starts the same chunks in the same order.
  void start(const StripeChunk& chunk);
  /// Does what has become possible. True: something has.
  bool advance();
  /// After a failure: gives the operations up. This object must stay until the process ends, because MPI may still
  /// write into its buffers.
  void abandon();

  size_t chunks_done() const { return ended_; }        ///< since construction
  uint64_t bytes_sent() const { return bytes_sent_; }  ///< since construction

 private:
  /// Buffers and operations of one chunk. Vectors and matrix rows are by peer; this rank's own are unused.
  struct Slot {
    enum class Phase { idle, summing, gathering } phase = Phase::idle;
    StripeChunk chunk;
    View own, reduced;                    ///< [longest] wire
    View outgoing, contributions;         ///< [ranks, longest] wire
    View gathered;                        ///< the same; empty where the sums stay with their owners
    std::vector<Handle> sends, arrivals;  ///< of contributions
    std::vector<Handle> sum_sends, sum_arrivals;
    std::vector<char> awaited;  ///< the peer's sum has not been taken over yet

    auto all_handles() { return std::array{&sends, &arrivals, &sum_sends, &sum_arrivals}; }
  };

  static void take_buffers(Slot& slot, Arena& arena, int ranks, DType wire, SumsAt sums, int64_t longest);
  template <class Do>
  void for_peers(Do action);
  void send(Handle& handle, View x, int peer, int tag);
  void sum(Slot& slot);
  bool gather(Slot& slot);

  std::span<float> array_;
  Communicator& group_;
  SumsAt sums_;
  Arena buffers_;
  std::vector<Slot> slots_;
  size_t most_summing_;                          ///< chunks whose contributions are on their way
  size_t started_ = 0, summed_ = 0, ended_ = 0;  ///< chunk i lives in slot i modulo their number
  uint64_t bytes_sent_ = 0;
};

}  // namespace trireme
