#pragma once
// What a pipeline stage sends to its neighbours and gets from them: activations to the stage behind, their gradients to
// the stage before. Receives are posted before they are waited for, sends never block: a buffer is waited for when it
// is needed again.

#include <array>
#include <optional>

#include "comm/courier.h"
#include "comm/mesh.h"
#include "model/pipeline_order.h"
#include "tensor/arena.h"

namespace trireme {

class StageLinks {
 public:
  /// Collective over the pipeline axis. rows: of the largest micro-batch.
  StageLinks(Communicator& pipeline, DType dtype, int64_t rows, int64_t width, std::vector<int> cpus);
  static size_t bytes_for(int stages, DType dtype, int64_t rows, int64_t width);

  int stage() const { return stage_; }
  int stages() const { return stages_; }
  bool first() const { return stage_ == 0; }
  bool last() const { return stage_ + 1 == stages_; }

  /// What the pass of a micro-batch takes begins to arrive: from the stage before (forward) or behind (backward).
  /// Nothing where it takes nothing. Of each pass at most two are expected at a time, in the order of take().
  void expect(PipelinePass pass, int64_t micro_batch, int64_t rows);
  /// What was expected; empty where the pass takes nothing from a neighbour. [rows, width], valid until the
  /// next-but-one take() of the pass. Of no rows nothing travels.
  View take(PipelinePass pass, int64_t rows);
  /// Where the pass writes what it hands on; empty where it hands on nothing.
  View outgoing(PipelinePass pass, int64_t rows);
  /// Sends what was written there.
  void hand_on(PipelinePass pass, int64_t micro_batch, int64_t rows);
  /// Returns once everything sent has left.
  void flush();

  uint64_t bytes_sent() const { return bytes_sent_; }

 private:
  struct Buffer {
    View rows;
    Courier::Ticket ticket = 0;
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

  int stage_, stages_;
  std::unique_ptr<Communicator> group_;
  Arena arena_;
  std::array<Lane, 2> in_, out_;
  uint64_t bytes_sent_ = 0;
  Courier courier_;  // last: its thread uses the others
};

}  // namespace trireme
