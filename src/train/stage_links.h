#pragma once
// What a pipeline stage sends to its neighbours and gets from them: activations to the stage behind, their gradients to
// the stage before. Where stages have several chunks of the model they form a ring: behind the last stage comes the
// first one's next chunk. Receives are posted before they are waited for, sends never block: a buffer is waited for
// when it is needed again.

#include <array>
#include <functional>
#include <optional>

#include "comm/async_messenger.h"
#include "comm/mesh.h"
#include "model/pipeline_order.h"
#include "tensor/arena.h"

namespace trireme {

class StageLinks {
 public:
  /// Collective over the pipeline axis. rows: of the largest micro-batch. device: of the activations, which its stream
  /// completes.
  StageLinks(Communicator& pipeline, Device& device, int64_t chunks, DType dtype, int64_t rows, int64_t width,
             std::vector<int> cpus);
  static size_t bytes_for(int stages, DType dtype, int64_t rows, int64_t width);

  int stage() const { return stage_; }
  int stages() const { return stages_; }
  int64_t chunks() const { return chunks_; }
  bool last() const { return stage_ + 1 == stages_; }

  // An action takes from the stage before (forward) or behind (backward) and hands on to the other one. Of no rows
  // nothing travels.

  /// What the action takes begins to arrive; nothing where it takes nothing. Of each pass at most two are expected at a
  /// time, in the order of take().
  void expect(const PipelineAction& action, int64_t rows);
  /// What was expected; empty where the action takes nothing. [rows, width], valid until the next-but-one take() of the
  /// pass.
  View take(const PipelineAction& action, int64_t rows);
  /// Where the action writes what it hands on; empty where it hands on nothing.
  View outgoing(const PipelineAction& action, int64_t rows);
  /// Sends what was written there.
  void hand_on(const PipelineAction& action, int64_t rows);
  /// Returns once everything sent has left.
  void flush();

  uint64_t bytes_sent() const { return bytes_sent_; }

 private:
  struct Buffer {
    View rows;
    AsyncMessenger::Ticket ticket = 0;
  };
  /// Two take turns, by the number of the call.
  struct Lane {
    std::optional<int> peer;  ///< none: nothing travels here
    std::array<Buffer, 2> buffers;
    size_t begun = 0, ended = 0;
  };
  Lane& in(PipelinePass pass) { return in_[static_cast<size_t>(pass)]; }
  Lane& out(PipelinePass pass) { return out_[static_cast<size_t>(pass)]; }
  void wait(Buffer& buffer, const char* what);
  /// The part of the model that takes what the part of an action hands on, or, with `before`, that hands on to it; none
  /// at the ends.
  std::optional<int64_t> neighbour_part(const PipelineAction& action, bool before) const;

  int stage_, stages_;
  int64_t chunks_;
  Device& device_;
  std::unique_ptr<Communicator> group_;
  Arena arena_;
  std::array<Lane, 2> in_, out_;
  uint64_t bytes_sent_ = 0;
  AsyncMessenger messenger_;  // last: its thread uses the others
};

/// Runs a stage's actions in their order: what the next one takes begins to arrive before act() is called for one.
/// rows: that travel of a micro-batch. act: takes, computes and hands on.
void run_in_order(StageLinks& links, const std::vector<PipelineAction>& order,
                  const std::function<int64_t(int64_t micro_batch)>& rows,
                  const std::function<void(const PipelineAction&)>& act);

}  // namespace trireme
