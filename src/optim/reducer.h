#pragma once
// Sums gradients over data-parallel ranks beside backward, stripe by stripe, through stream groups
// (comm/stream_group.h; docs/design.md, decision 7).
//
// The flat array is cut into stripes of one piece per rank (optim/ownership.h), these into chunks. Per chunk every rank
// rounds its contribution to the wire type and sends each owner its part; the owner, whose own contribution is rounded
// too, adds in f32 in rank order and rounds the sum. The sum stays there (sharded state) or is sent to all ranks at
// once (every rank updates all weights). So owners or all ranks hold the same bits, which do not depend on buckets or
// timing. Wire f32 rounds nothing: N ranks then give the bits of one rank that adds the same N arrays. A group of one
// exchanges nothing and so rounds nothing, whatever the wire type. A hierarchical reduction (ReducerOptions::hosts)
// defines another sum: see optim/reduction_plan.h. So does a library that adds (ReducerOptions::by_library).

#include <functional>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/progress_thread.h"
#include "comm/stream_group.h"
#include "ops/ops.h"
#include "optim/reduction_plan.h"

namespace trireme {

/// The cost of the exchange of gradients in one step. Seconds are 0 where devices wait for each other, not the host.
struct ExchangeTimes {
  double exposed_seconds = 0;  ///< the step waited this long for communication after backward had ended
  double total_seconds = 0;    ///< from the first bucket's start to the last one's end
  uint64_t wire_bytes = 0;     ///< sent by this rank
};

struct ReducerOptions {
  DType wire = DType::bf16;  ///< bf16 or f32
  SumsAt sums = SumsAt::everyone;
  std::vector<int> cpus = {};  ///< where messages are sent and received; empty: where its creator runs
  SparseRows rows = {};        ///< only zeros after it
  size_t chunk_bytes = kHostChunkBytes;
  bool devices = false;   ///< a library connects the ranks' devices: chunks have their size (exchange/device_group.h)
  bool one_host = false;  ///< all ranks are on this host (exchange/chunk_pipeline.h)
  HostMap hosts = {};     ///< hierarchical: where the ranks are, the same number on each host; empty: all at once
  bool by_library =
      false;  ///< sums are those of the library that connects the ranks' devices (DeviceLinks::collective)
  /// Called beside compute, with a context for that, for each range whose sums are complete, ascending; the array's
  /// values in it are not needed any more.
  std::function<void(Context&, ParameterRange)> summed = {};
};

class Reducer {
 public:
  /// Collective. Borrows everything except the options. gradients: [n] f32. ownership: of the array, without
  /// options.rows if they are after it. Buffers are allocated here, none in a step. Throws Error::config for another
  /// wire type.
  Reducer(View gradients, Communicator& group, Ops& ops, const Ownership& ownership, ReducerOptions options);
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  /// A new step; nothing is ready yet.
  void begin();
  /// The work issued to the device's stream so far completes elements [0, end). A stripe starts once its bucket is
  /// ready.
  void ready(int64_t end);
  /// Returns once options.summed was called for all stripes that elements [0, end) complete. Throws as finish().
  void wait_until_summed(int64_t end);
  /// The rest is ready; work issued from now on may use this rank's sums: those that it owns (Ownership::owned_by), or
  /// all. Throws the groups' error (Error::comm, Error::peer); after that the job must end, because operations may be
  /// incomplete.
  void finish();

  /// The times of the last step that has finished.
  const ExchangeTimes& times() const;
  /// The thread of its groups; nullptr for a group of one.
  std::shared_ptr<ProgressThread> thread() const;

  /// Ranks that a device is connected with, once for each group.
  static int peers(const ReducerOptions& options, int ranks, int rank);
  /// Memory for chunks in flight and the maps of touched rows; 0 for a group of one.
  static size_t buffer_bytes(const Ownership& ownership, const ReducerOptions& options);

 private:
  class Groups;
  std::unique_ptr<Groups> groups_;  ///< none in a group of one
  ExchangeTimes none_;
};

/// Adds the gradients of a matrix that two pipeline stages hold because the head is tied to the embedding. Each stage
/// has summed its own gradient over its data ranks.
class TiedSum {
 public:
  /// pair: first and last stage. Borrows both.
  TiedSum(Communicator& pair, Ops& ops);
  ~TiedSum();
  TiedSum(const TiedSum&) = delete;
  TiedSum& operator=(const TiedSum&) = delete;
  static size_t buffer_bytes();

  /// own += the other stage's sum: the same bits on both. own: [count] f32.
  void add_other(Context& context, View own);

 private:
  void add_on_device(Context& context, View own);

  Communicator& pair_;
  Ops& ops_;
  Arena arena_;
  View piece_;  ///< a part of the other stage's sum
  std::unique_ptr<StreamGroup>
      group_;  ///< where a library connects devices, in place of the pair; last: it uses the piece
};

}  // namespace trireme
