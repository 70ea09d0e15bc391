#pragma once
// Sums gradients over data-parallel ranks on a thread of its own, beside backward (docs/design.md, decision 7).
//
// The flat array is cut into stripes of one piece per rank (optim/ownership.h), these into chunks. Per chunk every rank
// rounds its contribution to the wire type and sends each owner its part; the owner, whose own contribution is rounded
// too, adds in f32 in rank order and rounds the sum. There it stays (sharded state), or it goes to everyone as soon as
// it is made (every rank updates all weights). So owners or all ranks hold the same bits, and they depend neither on
// buckets nor on timing. Wire f32 rounds nothing: N ranks then give the bits of one rank that adds the same N arrays. A
// group of one exchanges nothing and so rounds nothing, whatever the wire type. A hierarchical
// reduction (ReducerOptions::hosts) defines another sum: see optim/reduction_plan.h.

#include <functional>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "optim/reduction_plan.h"

namespace trireme {

/// What the exchange of gradients of one step cost.
struct ExchangeTimes {
  double exposed_seconds = 0;  ///< the step waited this long for communication after backward had ended
  double total_seconds = 0;    ///< from the first bucket's start to the last one's end
  uint64_t wire_bytes = 0;     ///< sent by this rank
};

struct ReducerOptions {
  DType wire = DType::bf16;  ///< bf16 or f32
  SumsAt sums = SumsAt::everyone;
  std::vector<int> cpus = {};  ///< the thread runs on these; empty: where its creator does
  SparseRows rows = {};        ///< behind it only zeros
  size_t chunk_bytes = kHostChunkBytes;
  bool one_host = false;  ///< all ranks are on this host (optim/chunk_pipeline.h)
  HostMap hosts = {};     ///< hierarchical: where the ranks are, the same number on each host; empty: all at once
  /// Called on the thread, with its context, for each range whose sums are complete, ascending; the array's values of
  /// it are not needed any more.
  std::function<void(Context&, ParameterRange)> summed = {};
};

class Reducer {
 public:
  /// Collective. Borrows everything but the options; the communicator from now on belongs to the thread. gradients: [n]
  /// f32. ownership: of the array but for options.rows where they lie behind it. Buffers are planned here, none is made
  /// in a step. Throws Error::config for another wire type.
  Reducer(View gradients, Communicator& group, Ops& ops, const Ownership& ownership, ReducerOptions options);
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  /// A new step; nothing is ready yet.
  void begin();
  /// What has been issued to the device's stream completes elements [0, end): they will not change any more. A stripe
  /// starts once its bucket is ready.
  void ready(int64_t end);
  /// Returns once options.summed was told of all stripes that elements [0, end) complete. Throws as finish().
  void wait_until_summed(int64_t end);
  /// The rest is ready; returns once this rank has its sums: those that it owns (Ownership::owned_by), or all. Throws
  /// what failed on the thread (Error::comm); after that the job must end, because operations may be left half-way.
  void finish();

  const ExchangeTimes& times() const;

  /// Memory for chunks on their way and the maps of touched rows in a group of so many ranks; 0 for one.
  static size_t buffer_bytes(const Ownership& ownership, const ReducerOptions& options);

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;  ///< none in a group of one
  ExchangeTimes none_;
};

}  // namespace trireme
