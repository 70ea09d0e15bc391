#pragma once
// The order in which a pipeline stage runs the micro-batches of a step: 1F1B, or interleaved 1F1B where a stage holds
// several chunks of the model, chunk c of stage s being part c * stages + s of the list of blocks. Source: Narayanan et
// al. 2021, "Efficient large-scale language model training on GPU clusters", figures 3 and 4. A pure function: every
// rank knows what every other one does.

#include <cstdint>
#include <vector>

namespace trireme {

enum class PipelinePass : uint8_t { forward, backward };

struct PipelineAction {
  PipelinePass pass = PipelinePass::forward;
  int64_t chunk = 0;
  int64_t micro_batch = 0;
  bool operator==(const PipelineAction&) const = default;
};

/// The actions of one stage in order: every chunk's forward and backward of every micro-batch once; of each chunk both
/// ascend. First only forwards, enough to fill the pipeline after this stage, then forward and backward in turn, then
/// the remaining backwards. One stage: F0 B0 F1 B1 ...
/// Throws Error::config where chunks > 1 and micro_batches is not a multiple of stages, naming the counts that are.
std::vector<PipelineAction> pipeline_order(int64_t stage, int64_t stages, int64_t chunks, int64_t micro_batches);

/// Forwards of a stage that begin between a micro-batch's forward and its backward, at most, that one included: how
/// long its batch is needed.
int64_t forwards_kept(const std::vector<PipelineAction>& order);

/// Micro-batches of a chunk that are between forward and backward at a time, at most: the slots that its part needs.
/// The first in is the first out, so micro-batch m can take slot m mod this.
int64_t slots_of(const std::vector<PipelineAction>& order, int64_t chunk);
/// Of every chunk.
std::vector<int64_t> slots_of_chunks(const std::vector<PipelineAction>& order, int64_t chunks);

}  // namespace trireme
