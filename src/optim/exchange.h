#pragma once
// Sums gradients over data-parallel ranks on a thread of its own, beside backward (docs/design.md, decision 7).
//
// The flat array is cut into buckets, a bucket into one slice per rank, a slice into chunks of at most chunk_bytes. Per
// chunk every rank rounds its contribution to the wire type and sends each owner its part; the owner, whose own
// contribution is rounded too, adds in f32 in rank order, rounds the sum and sends it to everyone. So all ranks hold
// the same bits, and they depend neither on bucket size nor on timing. Wire f32 rounds nothing: N ranks then give the
// bits of one rank that adds the same N arrays. A group of one exchanges nothing and so rounds nothing, whatever the
// wire type.

#include <memory>
#include <span>
#include <vector>

#include "comm/communicator.h"

namespace trireme {

/// What the exchange of one step cost.
struct ExchangeTimes {
  double exposed_seconds = 0;  ///< the step waited this long for communication after backward had ended
  double total_seconds = 0;    ///< from the first bucket's start to the last one's end
  uint64_t wire_bytes = 0;     ///< sent by this rank
};

/// The array's last part as [count, width], of which most rows are zero on every rank: an embedding's gradient. Only
/// rows that some rank has touched travel, which leaves the bits of the sum as they are.
struct SparseRows {
  int64_t begin = 0;  ///< its first element
  int64_t count = 0;  ///< 0: there is no such part
  int64_t width = 0;
};

/// Most bytes of a chunk. Between hosts a message must fit MPI's eager limit for TCP (64 KiB with its header): a larger
/// one first asks for leave, behind all data that is queued on a slow link. 56 KiB moved 16 MiB of gradients over 200
/// Mbit/s at 0.94 of plain two-way traffic, 1 MiB at 0.76. Inside a host a larger chunk costs less.
constexpr size_t kNetworkChunkBytes = 56 << 10, kHostChunkBytes = 1 << 20;

struct ExchangeOptions {
  DType wire = DType::bf16;          ///< bf16 or f32
  size_t bucket_bytes = 25'000'000;  ///< of the wire type
  std::vector<int> cpus;             ///< the thread runs on these; empty: where its creator does
  SparseRows rows;                   ///< behind it only zeros
  size_t chunk_bytes = kHostChunkBytes;
};

class Exchange {
 public:
  /// Borrows the array and the communicator, which from now on belongs to the thread. Buffers are planned here, none is
  /// made in a step. Throws Error::config for another wire type.
  Exchange(std::span<float> gradients, Communicator& group, ExchangeOptions options);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// A new step; nothing is ready yet.
  void begin();
  /// Elements [0, end) will not change any more; a bucket starts once all of it is ready.
  void ready(int64_t end);
  /// The rest is ready; returns once the whole array holds the sums. Throws what failed on the thread (Error::comm);
  /// after that the job must end, because operations may be left half-way.
  void finish();

  const ExchangeTimes& times() const;
  size_t buffer_bytes() const;  ///< memory held for chunks on their way

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;  ///< none in a group of one
  ExchangeTimes none_;
};

}  // namespace trireme
