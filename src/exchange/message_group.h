#pragma once
// A StreamGroup over a communicator: sums and gathers are made of messages and of the operators that add contributions
// in rank order. Everything runs on a progress thread.

#include <memory>
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "comm/progress_thread.h"
#include "comm/stream_group.h"
#include "exchange/chunk_pipeline.h"
#include "ops/ops.h"

namespace trireme {

struct GroupOptions {
  /// Arrays of f32 that are sent in another type, or whose ranks share memory, travel in chunks; each group does one
  /// kind of exchange with them.
  struct Chunks {
    ChunkPipeline::Route route;
    int64_t limit = 0;  ///< elements per rank
    /// Their sums are the device's library's (DeviceLinks::collective), not the RankOrderSum that calls name, whose
    /// type they have. Every rank needs a device with a network.
    bool by_library = false;
  };
  /// Tensors that are sent in their own type travel as one message per rank. A sum of them needs memory for the
  /// contributions of all ranks to this rank's piece.
  struct Sums {
    DType dtype = DType::f32;
    int64_t longest_piece = 0;
  };

  std::optional<Chunks> chunks{};
  std::vector<Sums> sums{};
  std::vector<int> cpus{};      ///< where the thread runs; empty: where its creator does
  ProgressThread::Pace pace{};  ///< of the thread
  /// Groups with one thread; none: the group gets its own. The owner ends it before the groups.
  std::shared_ptr<ProgressThread> thread{};
  /// Ranks of the axis with the same color form a group, in the order of keys; default: all, as on the axis.
  int color = 0;
  std::optional<int> key{};
  /// The only ranks that receive() and send() are called with, and no sums and gathers; neither: any. A device needs to
  /// know: it connects pairs.
  std::optional<int> from{}, to{};
};

/// Collective over the axis, whose communicator stays with the caller: the group uses a separate one. Borrows ops. Of a
/// device with a network, a group that uses that (device_group.h).
std::unique_ptr<StreamGroup> make_stream_group(Communicator& axis, Ops& ops, GroupOptions options);

/// Memory that it allocates; on a device whose ranks do not share memory at most that.
size_t group_bytes(int ranks, const GroupOptions& options);

/// n elements in equal pieces, which differ by at most one element.
std::vector<ElementRange> equal_pieces(int64_t elements, int ranks);

}  // namespace trireme
