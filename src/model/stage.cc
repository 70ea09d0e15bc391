#include "model/stage.h"

#include <algorithm>

namespace trireme {
namespace {

/// Scratch for the largest call of a step: the head's matrix is the largest, the vocabulary the widest row. A decoder's
/// gradient is never written with Write::add: its chunks meet in the workspace.
size_t scratch_bytes(const Spec& spec, DType dtype, const ModelShape& shape, const Ops& ops, int threads) {
  const int64_t widest_block = std::max({spec.inner_width, 3 * spec.width, spec.token_width(), spec.classes});
  CallSizes sizes;
  sizes.dtype = dtype;
  sizes.rows = shape.rows;
  sizes.width = std::max(spec.vocabulary_rows, widest_block);
  sizes.weight_count = std::max(spec.width, spec.token_width()) * sizes.width;
  sizes.added_count = shape.training && shape.accumulates ? spec.width * widest_block : 0;
  sizes.attention = {.heads = static_cast<int>(spec.heads),
                     .head_dim = static_cast<int>(spec.head_dim()),
                     .causal = spec.mask == Mask::causal,
                     .scale = 1,
                     .offsets = {}};
  sizes.threads = threads;
  return ops.scratch_bytes(sizes);
}

size_t activation_bytes(const Spec& spec, DType dtype, const ModelShape& shape) {
  Arena measure;
  const ModelMemory memory(spec, dtype, shape, measure);
  return measure.peak();
}

}  // namespace

StageBytes stage_bytes(const Spec& spec, DType dtype, const ModelShape& shape, const Ops& ops, int threads) {
  return {activation_bytes(spec, dtype, shape), scratch_bytes(spec, dtype, shape, ops, threads)};
}

Stage::Stage(const Spec& spec, const ParameterViews& views, DType dtype, const ModelShape& shape, Ops& ops, int threads)
    : spec_(spec),
      views_(views),
      ops_(ops),
      activations_(activation_bytes(spec, dtype, shape)),
      scratch_(scratch_bytes(spec, dtype, shape, ops, threads)),
      context_{threads, &scratch_},
      memory_(spec, dtype, shape, activations_),
      recompute_(shape.recompute),
      embedding_(spec_, views, memory_.embedding),
      head_(make_head(spec_, views, memory_.head)) {
  if (!memory_.rotary.empty()) ops_.rotary_table(context_, static_cast<double>(spec_.rotary_base), memory_.rotary);
  blocks_.reserve(static_cast<size_t>(spec.layers));
  for (int64_t i = 0; i < spec.layers; ++i) blocks_.emplace_back(spec_, views, memory_.rotary, i);
}

View Stage::input_of(int64_t block) const {
  return block < spec_.layers ? memory_.blocks[static_cast<size_t>(block)].x : memory_.output;
}

void Stage::forward(const Pass& pass) {
  const int64_t rows = pass.batch.rows();
  embedding_.forward(pass, memory_.work, input_of(0).rows_slice(0, rows));
  for (int64_t i = 0; i < spec_.layers; ++i) {
    const auto index = static_cast<size_t>(i);
    blocks_[index].forward(pass, memory_.blocks[index], memory_.work, input_of(i + 1).rows_slice(0, rows));
  }
}

double Stage::loss(const Batch& batch) {
  const Pass pass{.ops = ops_, .context = context_, .batch = batch};
  forward(pass);
  return head_->loss(pass, memory_.output.rows_slice(0, batch.rows()), memory_.work);
}

double Stage::loss_and_backward(const Batch& batch, const Step& step, float scale, Write write, GradientSink* sink) {
  const Pass pass{.ops = ops_,
                  .context = context_,
                  .batch = batch,
                  .seed = step.seed,
                  .step = step.step,
                  .dropout = step.dropout,
                  .write = write};
  auto finished = [&, next = size_t{0}]() mutable {
    const ParameterRange range = views_.table->ready_ranges()[next++];
    if (sink) sink->ready(range);
  };
  forward(pass);
  const double loss = head_->loss_and_backward(pass, memory_.output.rows_slice(0, batch.rows()), memory_.work, scale);
  finished();
  for (size_t i = blocks_.size(); i-- > 0;) {
    if (recompute_) blocks_[i].recompute(pass, memory_.blocks[i], memory_.work);
    blocks_[i].backward(pass, memory_.blocks[i], memory_.work);
    finished();
  }
  embedding_.backward(pass, memory_.work);
  finished();
  return loss;
}

void Stage::logits(const Batch& batch, View logits) {
  const Pass pass{.ops = ops_, .context = context_, .batch = batch};
  forward(pass);
  head_->logits(pass, memory_.output.rows_slice(0, batch.rows()), memory_.work, logits);
}

void Stage::decode(const Batch& batch, const KeyValueCache& cache, View logits) {
  const Pass pass{.ops = ops_, .context = context_, .batch = batch};
  const int64_t rows = batch.rows(), sequences = batch.sequences();
  embedding_.forward(pass, memory_.work, input_of(0).rows_slice(0, rows));
  for (int64_t i = 0; i < spec_.layers; ++i) {
    const auto index = static_cast<size_t>(i);
    blocks_[index].decode(pass, memory_.blocks[index], memory_.work, cache, input_of(i + 1).rows_slice(0, rows));
  }
  const int32_t* offsets = batch.offsets.as<int32_t>();
  for (int64_t s = 0; s < sequences; ++s) {  // only the last row of a prompt predicts anything new
    const View one = memory_.work.logits.rows_slice(0, 1);
    head_->logits(pass, memory_.output.rows_slice(offsets[s + 1] - 1, 1), memory_.work, one);
    ops_.cast(context_, one, logits.rows_slice(s, 1));
  }
}

}  // namespace trireme
