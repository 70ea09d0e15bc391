#include "model/pipeline_order.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <utility>

#include "base/count.h"
#include "base/error.h"

namespace trireme {
namespace {

/// The n-th forward, or backward, of a stage. Chunks take turns after one micro-batch per stage: backward begins with
/// the last chunk.
PipelineAction nth(PipelinePass pass, int64_t n, int64_t stages, int64_t chunks) {
  if (chunks == 1) return {pass, 0, n};
  const int64_t round = n / (stages * chunks), turn = n % (stages * chunks);
  const int64_t chunk = turn / stages;
  return {pass, pass == PipelinePass::forward ? chunk : chunks - 1 - chunk, round * stages + turn % stages};
}

/// Forwards before the first backward, minus one: they fill the pipeline after this stage.
int64_t warm_up(int64_t stage, int64_t stages, int64_t chunks) {
  const int64_t behind = stages - stage - 1;
  return chunks == 1 ? behind : 2 * behind + (chunks - 1) * stages;
}

}  // namespace

std::vector<PipelineAction> pipeline_order(int64_t stage, int64_t stages, int64_t chunks, int64_t micro_batches) {
  assert(stage >= 0 && stage < stages && chunks > 0 && micro_batches >= 0);
  const int64_t below = micro_batches / stages * stages;
  require(chunks == 1 || micro_batches % stages == 0, ErrorKind::config,
          "{} cannot be interleaved over {} stages with {} chunks each: their number must be a multiple of the stages, "
          "such as {}{}; or use one chunk",
          count_text(micro_batches, "micro-batch"), stages, chunks, below > 0 ? fmt::format("{} or ", below) : "",
          below + stages);
  const int64_t total = micro_batches * chunks, first = std::min(warm_up(stage, stages, chunks), total);
  std::vector<PipelineAction> order;
  order.reserve(static_cast<size_t>(2 * total));
  for (int64_t n = 0; n < total + first; ++n) {
    if (n < total) order.push_back(nth(PipelinePass::forward, n, stages, chunks));
    if (n >= first) order.push_back(nth(PipelinePass::backward, n - first, stages, chunks));
  }
  return order;
}

int64_t forwards_kept(const std::vector<PipelineAction>& order) {
  std::map<std::pair<int64_t, int64_t>, int64_t> begun;  // forwards before one's
  int64_t forwards = 0, most = 1;
  for (const PipelineAction& action : order) {
    if (action.pass == PipelinePass::forward) {
      begun[{action.chunk, action.micro_batch}] = forwards++;
    } else {
      most = std::max(most, forwards - begun.at({action.chunk, action.micro_batch}));
    }
  }
  return most;
}

int64_t slots_of(const std::vector<PipelineAction>& order, int64_t chunk) {
  int64_t now = 0, most = 0;
  for (const PipelineAction& action : order) {
    if (action.chunk != chunk) continue;
    now += action.pass == PipelinePass::forward ? 1 : -1;
    most = std::max(most, now);
  }
  return most;
}

std::vector<int64_t> slots_of_chunks(const std::vector<PipelineAction>& order, int64_t chunks) {
  std::vector<int64_t> slots;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) slots.push_back(slots_of(order, chunk));
  return slots;
}

}  // namespace trireme
