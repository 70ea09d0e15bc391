#include "train/stage_links.h"

#include <fmt/format.h>

#include <cassert>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>

#include "exchange/message_group.h"

namespace trireme {
namespace {

constexpr std::array kPasses{PipelinePass::forward, PipelinePass::backward};

// Messages are few, and a stage often waits for a micro-batch of another one: sleeps soon reach their bound, which is
// short beside that.
constexpr ProgressThread::Pace kPace{.patience = std::chrono::microseconds(50),
                                     .awaited = std::chrono::microseconds(50),
                                     .sleep_part = 1,
                                     .longest_sleep = std::chrono::microseconds(500)};

/// A copy of the text that is never freed, because the watch of a wait may read it at any time.
const char* kept(const std::string& text) {
  static std::mutex mutex;
  static auto* const texts =
      new std::unordered_set<std::string>;  // never destroyed: threads read it until the program ends
  const std::lock_guard lock(mutex);
  return texts->insert(text).first->c_str();
}

/// "activations of micro-batch 3 from pipeline 1"
const char* awaited(const PipelineAction& action, int from) {
  return kept(fmt::format("{} of micro-batch {} from pipeline {}",
                          action.pass == PipelinePass::forward ? "activations" : "gradients", action.micro_batch + 1,
                          from));
}

const char* taken(int by) { return kept(fmt::format("pipeline {} to receive", by)); }

/// The neighbours that a pass receives from and sends to; nullopt at the ends if the stages are not a ring.
std::pair<std::optional<int>, std::optional<int>> neighbours(PipelinePass pass, int stage, int stages, bool ring) {
  if (stages == 1) return {};
  const std::optional<int> before = stage > 0 || ring ? std::optional((stage + stages - 1) % stages) : std::nullopt;
  const std::optional<int> behind = stage + 1 < stages || ring ? std::optional((stage + 1) % stages) : std::nullopt;
  return pass == PipelinePass::forward ? std::pair(before, behind) : std::pair(behind, before);
}

}  // namespace

StageLinks::StageLinks(Communicator& pipeline, Ops& ops, int64_t chunks, DType dtype, int64_t rows, int64_t width,
                       std::vector<int> cpus)
    : stage_(pipeline.rank()),
      stages_(pipeline.size()),
      chunks_(chunks),
      device_(ops.device()),
      arena_(bytes_for(stages_, dtype, rows, width), device_) {
  for (const PipelinePass pass : kPasses) {
    std::tie(in(pass).peer, out(pass).peer) = neighbours(pass, stage_, stages_, chunks_ > 1);
    for (Lane* lane : {&in(pass), &out(pass)}) {
      if (!lane->peer) continue;
      for (Buffer& buffer : lane->buffers) buffer.rows = arena_.take(dtype, {rows, width});
    }
  }
  if (stages_ == 1) return;
  const auto thread = std::make_shared<ProgressThread>(pipeline.heartbeat(), std::move(cpus), kPace);
  for (const PipelinePass pass : kPasses)
    groups_[static_cast<size_t>(pass)] =
        make_stream_group(pipeline, ops, {.thread = thread, .from = in(pass).peer, .to = out(pass).peer});
}

StageLinks::~StageLinks() {
  // After a failure MPI may still write into buffers that it was given: they stay until the process ends.
  bool done = true;
  for (const auto& group : groups_) done = (!group || group->end()) && done;
  if (!done) static_cast<void>(new Arena(std::move(arena_)));
}

std::optional<int64_t> StageLinks::neighbour_part(const PipelineAction& action, bool before) const {
  const bool lower = before == (action.pass == PipelinePass::forward);
  const int64_t part = action.chunk * stages_ + stage_ + (lower ? -1 : 1);
  return part < 0 || part == chunks_ * stages_ ? std::nullopt : std::optional(part);
}

size_t StageLinks::bytes_for(int stages, DType dtype, int64_t rows, int64_t width) {
  if (stages == 1) return 0;
  Arena measure;
  for (int i = 0; i < 8; ++i) measure.take(dtype, {rows, width});  // a stage has at most two neighbours
  return measure.peak();
}

void StageLinks::wait(PipelinePass pass, Buffer& buffer, const char* what) {
  if (stages_ > 1) group(pass).wait(std::exchange(buffer.free, {}), what, buffer.rows.bytes());
}

void StageLinks::post_receive(const PipelineAction& action, int64_t rows) {
  if (!neighbour_part(action, true) || rows == 0) return;
  Lane& lane = in(action.pass);
  assert(lane.begun - lane.ended < lane.buffers.size());
  Buffer& buffer = lane.buffers[lane.begun++ % 2];
  // All reads of the buffer have been issued.
  buffer.free = group(action.pass).receive(buffer.rows.rows_slice(0, rows), *lane.peer, device_.stream().record());
}

View StageLinks::receive_input(const PipelineAction& action, int64_t rows) {
  if (!neighbour_part(action, true)) return {};
  Lane& lane = in(action.pass);
  if (rows == 0) return lane.buffers[0].rows.rows_slice(0, 0);
  assert(lane.begun > lane.ended);
  Buffer& buffer = lane.buffers[lane.ended++ % 2];
  wait(action.pass, buffer, awaited(action, *lane.peer));
  return buffer.rows.rows_slice(0, rows);
}

View StageLinks::output_buffer(const PipelineAction& action, int64_t rows) {
  if (!neighbour_part(action, false)) return {};
  Lane& lane = out(action.pass);
  if (rows == 0) return lane.buffers[0].rows.rows_slice(0, 0);
  Buffer& buffer = lane.buffers[lane.begun % 2];
  wait(action.pass, buffer, taken(*lane.peer));
  return buffer.rows.rows_slice(0, rows);
}

void StageLinks::send_output(const PipelineAction& action, int64_t rows) {
  if (!neighbour_part(action, false) || rows == 0) return;
  Lane& lane = out(action.pass);
  Buffer& buffer = lane.buffers[lane.begun++ % 2];
  const View from = buffer.rows.rows_slice(0, rows);
  bytes_sent_ += from.bytes();
  buffer.free = group(action.pass).send(from, *lane.peer, device_.stream().record());
}

void StageLinks::flush() {
  for (const PipelinePass pass : kPasses) {
    for (Buffer& buffer : out(pass).buffers)
      if (!buffer.free.reached()) wait(pass, buffer, taken(*out(pass).peer));
  }
}

void run_in_order(StageLinks& links, const std::vector<PipelineAction>& order,
                  const std::function<int64_t(int64_t micro_batch)>& rows,
                  const std::function<void(const PipelineAction&)>& act) {
  const auto expect = [&](const PipelineAction& action) { links.post_receive(action, rows(action.micro_batch)); };
  if (!order.empty()) expect(order.front());
  for (size_t i = 0; i < order.size(); ++i) {
    if (i + 1 < order.size()) expect(order[i + 1]);
    act(order[i]);
  }
  links.flush();
}

}  // namespace trireme
