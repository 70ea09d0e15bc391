#include "train/stage_links.h"

#include <cassert>
#include <utility>

namespace trireme {
namespace {

constexpr std::array kPasses{PipelinePass::forward, PipelinePass::backward};
constexpr int kMostTag = 32767;  // what MPI promises at least

int tag_of(PipelinePass pass, int64_t micro_batch) {
  return static_cast<int>((2 * micro_batch + (pass == PipelinePass::backward ? 1 : 0)) % kMostTag);
}

const char* awaited(PipelinePass pass) {
  return pass == PipelinePass::forward ? "activations from the stage before" : "gradients from the stage behind";
}

/// The neighbour that a pass takes from and the one that it hands on to; none at the ends.
std::pair<std::optional<int>, std::optional<int>> neighbours(PipelinePass pass, int stage, int stages) {
  const std::optional<int> before = stage > 0 ? std::optional(stage - 1) : std::nullopt;
  const std::optional<int> behind = stage + 1 < stages ? std::optional(stage + 1) : std::nullopt;
  return pass == PipelinePass::forward ? std::pair(before, behind) : std::pair(behind, before);
}

}  // namespace

StageLinks::StageLinks(Communicator& pipeline, DType dtype, int64_t rows, int64_t width, std::vector<int> cpus)
    : stage_(pipeline.rank()),
      stages_(pipeline.size()),
      group_(pipeline.split(0, pipeline.rank())),
      arena_(bytes_for(stages_, dtype, rows, width)),
      courier_(pipeline.progress(), std::move(cpus)) {
  group_->report_to(pipeline.progress());
  for (const PipelinePass pass : kPasses) {
    std::tie(in(pass).peer, out(pass).peer) = neighbours(pass, stage_, stages_);
    for (Lane* lane : {&in(pass), &out(pass)}) {
      if (!lane->peer) continue;
      for (Buffer& buffer : lane->buffers) buffer.rows = arena_.take(dtype, {rows, width});
    }
  }
}

size_t StageLinks::bytes_for(int stages, DType dtype, int64_t rows, int64_t width) {
  if (stages == 1) return 0;
  Arena measure;
  for (int i = 0; i < 8; ++i) measure.take(dtype, {rows, width});  // the most that a stage has: two neighbours
  return measure.peak();
}

void StageLinks::wait(Buffer& buffer, const char* what) {
  courier_.wait(std::exchange(buffer.ticket, 0), what, buffer.rows.bytes());
}

void StageLinks::expect(PipelinePass pass, int64_t micro_batch, int64_t rows) {
  Lane& lane = in(pass);
  if (!lane.peer || rows == 0) return;
  assert(lane.begun - lane.ended < lane.buffers.size());
  Buffer& buffer = lane.buffers[lane.begun++ % 2];
  const View to = buffer.rows.rows_slice(0, rows);
  buffer.ticket = courier_.post(
      [this, to, peer = *lane.peer, tag = tag_of(pass, micro_batch)] { return group_->receive(to, peer, tag); });
}

View StageLinks::take(PipelinePass pass, int64_t rows) {
  Lane& lane = in(pass);
  if (!lane.peer) return {};
  if (rows == 0) return lane.buffers[0].rows.rows_slice(0, 0);
  assert(lane.begun > lane.ended);
  Buffer& buffer = lane.buffers[lane.ended++ % 2];
  wait(buffer, awaited(pass));
  return buffer.rows.rows_slice(0, rows);
}

View StageLinks::outgoing(PipelinePass pass, int64_t rows) {
  Lane& lane = out(pass);
  if (!lane.peer) return {};
  if (rows == 0) return lane.buffers[0].rows.rows_slice(0, 0);
  Buffer& buffer = lane.buffers[lane.begun % 2];
  wait(buffer, "a neighbour stage to take what was sent");
  return buffer.rows.rows_slice(0, rows);
}

void StageLinks::hand_on(PipelinePass pass, int64_t micro_batch, int64_t rows) {
  Lane& lane = out(pass);
  if (!lane.peer || rows == 0) return;
  Buffer& buffer = lane.buffers[lane.begun++ % 2];
  const View from = buffer.rows.rows_slice(0, rows);
  bytes_sent_ += from.bytes();
  buffer.ticket = courier_.post(
      [this, from, peer = *lane.peer, tag = tag_of(pass, micro_batch)] { return group_->send(from, peer, tag); });
}

void StageLinks::flush() {
  for (Lane& lane : out_) {
    for (Buffer& buffer : lane.buffers) wait(buffer, "a neighbour stage to take what was sent");
  }
}

}  // namespace trireme
