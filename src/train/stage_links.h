#pragma once
// Messages between a pipeline stage and its neighbours: activations to the next stage, their gradients to the previous
// one. Stages with several chunks of the model form a ring: the last stage sends to the next chunk of the first one.
// Receives are posted before they are needed, sends do not block: a buffer is waited for when it is needed again. Each
// pass has its own group, in which messages arrive in the order in which they were sent (model/pipeline_order.h).

#include <array>
#include <functional>
#include <memory>
#include <optional>

#include "comm/communicator.h"
#include "comm/stream_group.h"
#include "model/pipeline_order.h"
#include "ops/ops.h"
#include "tensor/arena.h"

namespace trireme {

class StageLinks {
 public:
  /// Collective over the pipeline axis. rows: of the largest micro-batch. ops: of the activations, which the stream of
  /// its device completes.
  StageLinks(Communicator& pipeline, Ops& ops, int64_t chunks, DType dtype, int64_t rows, int64_t width,
             std::vector<int> cpus);
  ~StageLinks();
  StageLinks(const StageLinks&) = delete;
  StageLinks& operator=(const StageLinks&) = delete;
  static size_t bytes_for(int stages, DType dtype, int64_t rows, int64_t width);

  int stage() const { return stage_; }
  int stages() const { return stages_; }
  int64_t chunks() const { return chunks_; }
  bool last() const { return stage_ + 1 == stages_; }

  // An action receives from the previous stage (forward) or the next one (backward) and sends to the other one. With 0
  // rows nothing is sent.

  /// Posts the receive of the action's input, if it has one. At most two per pass are posted at a time, in the order of
  /// receive_input().
  void post_receive(const PipelineAction& action, int64_t rows);
  /// The received input, [rows, width], valid until the second next receive_input() of the pass; empty if the action
  /// receives nothing.
  View receive_input(const PipelineAction& action, int64_t rows);
  /// The buffer for the action's output; empty if it sends nothing.
  View output_buffer(const PipelineAction& action, int64_t rows);
  /// Sends that output.
  void send_output(const PipelineAction& action, int64_t rows);
  /// Waits until all sends are complete.
  void flush();

  uint64_t bytes_sent() const { return bytes_sent_; }

 private:
  struct Buffer {
    View rows;
    Event free;  ///< its message is done
  };
  /// Two alternate, by the number of the call.
  struct Lane {
    std::optional<int> peer;  ///< nullopt: nothing is sent here
    std::array<Buffer, 2> buffers;
    size_t begun = 0, ended = 0;
  };
  Lane& in(PipelinePass pass) { return in_[static_cast<size_t>(pass)]; }
  Lane& out(PipelinePass pass) { return out_[static_cast<size_t>(pass)]; }
  StreamGroup& group(PipelinePass pass) { return *groups_[static_cast<size_t>(pass)]; }
  void wait(PipelinePass pass, Buffer& buffer, const char* what);
  /// The part of the model that receives the output of an action's part, or, with `before`, whose output it receives;
  /// nullopt at the ends.
  std::optional<int64_t> neighbour_part(const PipelineAction& action, bool before) const;

  int stage_, stages_;
  int64_t chunks_;
  Device& device_;
  Arena arena_;
  std::array<Lane, 2> in_, out_;
  uint64_t bytes_sent_ = 0;
  std::array<std::unique_ptr<StreamGroup>, 2> groups_;  ///< last: their thread uses the buffers
};

/// Runs a stage's actions in order; the receive of the next action is posted before act() of the current one. rows: per
/// micro-batch, as sent. act: receives, computes and sends.
void run_in_order(StageLinks& links, const std::vector<PipelineAction>& order,
                  const std::function<int64_t(int64_t micro_batch)>& rows,
                  const std::function<void(const PipelineAction&)>& act);

}  // namespace trireme
