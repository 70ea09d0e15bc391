#include "model/stage_part.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/error.h"
#include "model/adapters.h"
#include "model/linear_adapter.h"
#include "model/rotary.h"
#include "ops/check.h"

namespace trireme {
namespace {

/// The rows of each sequence where all are as long as the context, as in pre-training.
int64_t equal_rows(const Spec& spec, const ModelShape& shape) {
  const bool dropped = shape.training && spec.attention_dropout > 0;
  return shape.rows % spec.context == 0 && !dropped ? spec.context : 0;
}

/// By which rotary frequencies are chosen. batch: on the host.
int64_t longest_in(const Spec& spec, const Batch& batch) {
  if (rotary_length(spec.rotary, 1) == 0 || batch.longest > 0) return batch.longest;
  const auto positions = batch.positions.values<int32_t>();
  return positions.empty() ? 0 : *std::ranges::max_element(positions) + 1;
}

/// Scratch for the largest call of a step. The head's matrix is the largest, the vocabulary the widest row, but it
/// takes few rows at a time, and a decoder's gradient is never written with Write::add: its chunks meet in the
/// workspace.
size_t scratch_bytes(const Spec& spec, const Layout& layout, DType dtype, const ModelShape& shape, const Ops& ops,
                     int threads) {
  const int64_t widest_block =
      std::max({layout.share(spec.mlp_in_width()), layout.share(spec.qkv_width()), layout.share(spec.attention_width()),
                layout.share(spec.delta_width()), layout.share(spec.delta_value_width()), spec.width,
                spec.token_width(), spec.classes});
  const AdapterSizes adapters = adapter_sizes(spec, layout.tensor_size);
  const size_t of_adapters = adapter_scratch_bytes(spec, layout.tensor_size, dtype, shape.rows, shape.training);
  CallSizes sizes;
  sizes.dtype = dtype;
  sizes.rows = shape.rows;
  sizes.width = std::max(widest_block, adapters.rank);
  sizes.rank = adapters.rank;
  const int64_t narrow = std::max({spec.width, spec.token_width(), adapters.rank});
  sizes.weight_count = narrow * sizes.width;
  sizes.added_count = shape.training && shape.accumulates ? narrow * sizes.width : 0;
  sizes.attention = {.kv_heads = static_cast<int>(layout.share(spec.kv_heads())),
                     .group = static_cast<int>(spec.group()),
                     .head_dim = static_cast<int>(spec.head_dim()),
                     .causal = spec.mask == Mask::causal,
                     .scale = spec.score_scale(),
                     .offsets = {},
                     .soft_cap = spec.attention_cap,
                     .equal_length = equal_rows(spec, shape)};
  sizes.delta = delta_shape(spec, layout);
  sizes.taps = spec.delta_taps;
  sizes.threads = threads;
  const size_t blocks = ops.scratch_bytes(sizes) + of_adapters;
  if (!layout.part.head || !spec.has_decoder()) return blocks;
  sizes.rows = planned_head_rows(spec, dtype, shape, ops.head_block());
  sizes.inputs = std::max(spec.width, spec.token_width());
  sizes.width = layout.share(spec.vocabulary_rows);
  sizes.weight_count = sizes.inputs * sizes.width;
  sizes.rank = 0;
  sizes.added_count = 0;
  sizes.attention = {};
  sizes.delta = {};
  return std::max(blocks, ops.scratch_bytes(sizes));
}

std::vector<SlotMemory> take_slots(const Spec& spec, const Layout& layout, DType dtype, const ModelShape& shape,
                                   const WorkspaceMemory& shared, Arena& arena) {
  std::vector<SlotMemory> slots;
  for (int64_t i = 0; i < shape.slots; ++i) slots.emplace_back(spec, layout, dtype, shape, shared, arena);
  return slots;
}

size_t workspace_bytes(const Spec& spec, const Layout& layout, DType dtype, const ModelShape& shape, const Ops& ops) {
  Arena measure;
  const WorkspaceMemory memory(spec, layout, dtype, shape, ops.head_block(), measure);
  return measure.peak();
}

size_t slots_bytes(const Spec& spec, const Layout& layout, DType dtype, const ModelShape& shape, const Ops& ops) {
  Arena measure, workspace;
  const WorkspaceMemory shared(spec, layout, dtype, shape, ops.head_block(), workspace);
  (void)take_slots(spec, layout, dtype, shape, shared, measure);
  return measure.peak();
}

size_t slots_of_parts_bytes(const Spec& spec, const Layout& layout, DType dtype, const ModelShape& shape,
                            const Ops& ops) {
  size_t bytes = 0;
  for (size_t chunk = 0; chunk < layout.parts().size(); ++chunk)
    bytes += slots_bytes(spec, layout.chunk(chunk), dtype, shape.of_chunk(chunk), ops);
  return bytes;
}

}  // namespace

TensorGroup::Sizes tensor_sizes(const Spec& spec, DType dtype, const ModelShape& shape, const Ops& ops) {
  const AdapterSizes adapters = adapter_sizes(spec, 1);
  const int64_t of_query_keys = spec.query_keys == QueryKeys::projection ? 2 * shape.rows
                                : spec.query_keys == QueryKeys::head     ? 2 * spec.head_dim()
                                                                         : 0;
  return {.dtype = dtype,
          .elements = shape.rows * std::max({spec.width, spec.token_width(), adapters.rank}),
          .rows = spec.has_decoder() ? head_rows_for(spec, dtype, shape.rows, ops.head_block()) : 0,
          .statistics = std::max({of_query_keys, spec.delta_value_size, adapters.magnitudes ? adapters.outputs : 0}),
          .sequence_rows = shape.sequence_parallel ? shape.rows : 0,
          .width = std::max(spec.width, spec.token_width())};
}

void require_operators(const Spec& spec, const Ops& ops) {
  require(ops.has_delta_rule() || (!spec.has_states() && !spec.attention_gate), ErrorKind::config,
          "this model has {}, which the {} backend does not compute yet; set --run.device cpu",
          spec.has_states() ? "layers with a state (gated DeltaNet)" : "gated attention", ops.name());
}

StageBytes stage_bytes(const Spec& spec, DType dtype, const ModelShape& shape, const Ops& ops, int threads,
                       const Layout& layout) {
  require_operators(spec, ops);
  const Layout own = layout.of(spec);
  const int ranks = own.tensor_size;
  return {
      .activations = workspace_bytes(spec, own, dtype, shape, ops) + slots_of_parts_bytes(spec, own, dtype, shape, ops),
      .scratch = scratch_bytes(spec, own, dtype, shape, ops, threads),
      .tensor = ranks > 1 ? TensorGroup::bytes_for(ranks, tensor_sizes(spec, dtype, shape, ops)) : 0};
}

StageWorkspace::StageWorkspace(const Spec& spec, const Layout& layout, DType dtype, const ModelShape& shape, Ops& ops,
                               int threads, TensorGroup* tensor)
    : ops_(ops),
      tensor_(tensor),
      feed_(ops.device(), shape.rows),
      arena_(workspace_bytes(spec, layout.of(spec), dtype, shape, ops), ops.device()),
      scratch_(scratch_bytes(spec, layout.of(spec), dtype, shape, ops, threads), ops.device()),
      context_{threads, &scratch_, &ops.device().stream()},
      memory_(spec, layout.of(spec), dtype, shape, ops.head_block(), arena_) {
  require_operators(spec, ops);
  assert(layout.tensor_size == (tensor ? tensor->size() : 1));
  assert(shape.sequence_parallel == (tensor && tensor->sequence_parallel()));
  if (memory_.window_rotary.empty()) return;
  const auto base = static_cast<double>(spec.window_rotary_base);
  ops_.rotary_table(context_, rotary_frequencies(base, spec.rotary_dims, {}, spec.context), 1, memory_.window_rotary);
}

void StageWorkspace::turn_for(const Spec& spec, int64_t longest) {
  const int64_t length = rotary_length(spec.rotary, longest);
  if (memory_.rotary.empty() || (length == turned_length_ && longest <= turned_rows_)) return;
  turned_length_ = length;
  turned_rows_ = length == 0 ? spec.context : std::min(spec.context, 2 * longest);  // texts that are continued grow
  const auto w = rotary_frequencies(static_cast<double>(spec.rotary_base), spec.rotary_dims, spec.rotary, longest);
  ops_.rotary_table(context_, w, static_cast<double>(spec.rotary.attention_factor),
                    memory_.rotary.rows_slice(0, turned_rows_));
}

StagePart::StagePart(const Spec& spec, const Layout& layout, const ParameterViews& views, DType dtype,
                     const ModelShape& shape, StageWorkspace& workspace, WeightSource* weights)
    : spec_(spec),
      part_(layout.part.of(spec)),
      views_(views),
      training_(shape.training),
      recompute_(shape.recompute),
      workspace_(workspace),
      weights_(weights ? *weights : always_there_),
      arena_(slots_bytes(spec, layout.of(spec), dtype, shape, workspace.ops()), workspace.ops().device()) {
  for (SlotMemory& memory : take_slots(spec_, layout.of(spec), dtype, shape, workspace_.memory(), arena_))
    slots_.push_back({std::move(memory), {workspace_.ops().device(), workspace_.feed(), shape.rows}, {}, 0, {}, 0});
  if (part_.embedding) embedding_.emplace(spec_, views);
  blocks_.reserve(static_cast<size_t>(part_.layers()));
  for (int64_t i = part_.first_layer; i < part_.last_layer; ++i)
    blocks_.emplace_back(spec_, views, workspace_.memory().rotary_of(spec_, i), i);
  if (part_.head) head_ = make_head(spec_, views);
}

Pass StagePart::pass_of(const Slot& slot, View loss, Write write) const {
  return {.ops = workspace_.ops(),
          .context = workspace_.context(),
          .batch = slot.batch,
          .seed = slot.step.seed,
          .step = slot.step.step,
          .dropout = slot.step.dropout,
          .write = write,
          .loss = loss,
          .tensor = workspace_.tensor()};
}

Rows StagePart::rows_of(const Slot& slot) const {
  const int64_t rows = slot.batch.rows();
  return {rows, workspace_.tensor() ? workspace_.tensor()->share_of(rows).count : rows};
}

size_t StagePart::group_of_block(size_t index) const {
  return views_.table->block_group(part_.first_layer + static_cast<int64_t>(index));
}

WeightRanges StagePart::weights_of_block(size_t index) const {
  if (index < blocks_.size()) return views_.table->weights_of(group_of_block(index));
  return head_ ? views_.table->weights_of(views_.table->head_group()) : WeightRanges();
}

std::vector<size_t> StagePart::groups_of_backward() const {
  std::vector<size_t> groups;
  if (head_) groups.push_back(views_.table->head_group());
  for (size_t i = blocks_.size(); i-- > 0;) groups.push_back(group_of_block(i));
  if (!embedding_) return groups;  // the part before it takes the gradient of its input
  groups.push_back(views_.table->embedding_group());
  // The head computes the loss; below the last trained group nothing needs a gradient.
  const auto& ranges = views_.table->ready_ranges();
  while (groups.size() > size_t{head_ ? 1U : 0U} && ranges[groups.back()].empty()) groups.pop_back();
  return groups;
}

View StagePart::input(int64_t slot, int64_t rows) const {
  return slots_[static_cast<size_t>(slot)].memory.input(0).rows_slice(0, rows);
}

ConstView StagePart::activation(int64_t slot, int64_t block) const {
  return slots_[static_cast<size_t>(slot)].memory.input(static_cast<size_t>(block));
}

ConstView StagePart::head_input(const Slot& slot) const { return slot.memory.output.rows_slice(0, rows_of(slot).own); }

void StagePart::run(const Slot& slot, const KeyValueCache* cache, ConstView in, View out) {
  workspace_.turn_for(spec_, slot.longest);
  const Pass pass = pass_of(slot);
  const Rows rows = rows_of(slot);
  const Workspace work = workspace_.memory().work.first(rows);
  const auto input_of = [&](size_t block) {
    return block < blocks_.size() || head_ ? slot.memory.input(block).rows_slice(0, rows.own) : out;
  };
  if (!embedding_ && in.data() != input_of(0).data()) pass.ops.cast(pass.context, in, input_of(0));
  for_each_layer([&] { embedding_->forward(pass, slot.memory.embedding.first(rows.own), work, input_of(0)); },
                 [&](size_t i) {
                   const BlockSaved saved = slot.memory.blocks[i].first(rows);
                   cache ? blocks_[i].decode(pass, saved, work, *cache, input_of(i + 1))
                         : blocks_[i].forward(pass, saved, work, input_of(i + 1));
                 });
}

/// Embedding and blocks, each with its weights.
template <class Embed, class RunBlock>
void StagePart::for_each_layer(Embed embed, RunBlock run_block) {
  const ParameterTable& table = *views_.table;
  if (embedding_) {
    const WeightRanges& own = table.weights_of(table.embedding_group());
    const Reading matrix(weights_, table.tied_matrix(), own), rest(weights_, own, weights_of_block(0));
    embed();
  }
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const Reading weights(weights_, weights_of_block(i), weights_of_block(i + 1));
    run_block(i);
  }
}

uint64_t StagePart::put(int64_t slot, const Batch& batch, bool dropout) {
  Slot& own = slots_[static_cast<size_t>(slot)];
  check_batch(spec_, batch, dropout);
  own.longest = longest_in(spec_, batch);
  own.batch = own.place.put(batch);
  return own.waiting = ++puts_;
}

void StagePart::forward(int64_t slot, const Step& step, ConstView in, View out) {
  Slot& own = slots_[static_cast<size_t>(slot)];
  own.waiting = 0;
  own.step = step;
  run(own, nullptr, in, out);
}

void StagePart::decode(int64_t slot, const Batch& batch, const KeyValueCache& cache, ConstView in, View out) {
  Slot& own = slots_[static_cast<size_t>(slot)];
  check_batch(spec_, batch, false);
  for (size_t i = 0; i < cache.layers.size(); ++i) {
    if (cache.layers[i].keys_values.empty()) continue;  // a state of any length
    const int64_t window = spec_.has_window(cache.first_layer + static_cast<int64_t>(i)) ? spec_.window : 0;
    check_cache(batch.offsets, cache.past, cache.layers[i].keys_values.shape()[2], window);
  }
  own.longest = longest_in(spec_, batch);
  own.batch = own.place.put(batch);
  own.waiting = 0;
  own.step = {};
  last_rows_.assign(batch.offsets.values<int32_t>().begin() + 1, batch.offsets.values<int32_t>().end());
  KeyValueCache there = cache;
  there.past = own.place.put_counts(cache.past);
  run(own, &there, in, out);
}

void StagePart::backward(int64_t slot, const Gradients& gradients, ConstView dy, View dx) {
  assert(training_);
  const Slot& own = slots_[static_cast<size_t>(slot)];
  const ParameterTable& table = *views_.table;
  const Pass pass = pass_of(own, gradients.loss, gradients.write);
  Workspace work = workspace_.memory().work.first(rows_of(own));
  if (!embedding_) work.gradient = dx;  // every layer turns it from its dy into its dx
  if (!head_ && dy.data() != work.gradient.data()) pass.ops.cast(pass.context, dy, work.gradient);
  size_t block = blocks_.size();
  for_each_group_of_backward(gradients.sink, [&](size_t group) {
    if (head_ && group == table.head_group()) {
      head_->loss_and_backward(pass, head_input(own), work, gradients.scale);
    } else if (block > 0) {
      backward_block(--block, own, pass, work);
    } else {
      embedding_->backward(pass, own.memory.embedding.first(rows_of(own).own), work);
    }
  });
}

/// run(group) with its weights, between the notifications of the sink.
template <class Run>
void StagePart::for_each_group_of_backward(GradientSink* sink, Run run) {
  const ParameterTable& table = *views_.table;
  const std::vector<size_t> groups = groups_of_backward();
  for (size_t i = 0; i < groups.size(); ++i) {
    const WeightRanges next = i + 1 < groups.size() ? table.weights_of(groups[i + 1]) : WeightRanges();
    const Reading weights(weights_, table.weights_of(groups[i]), next);
    const ParameterRange& gradients = table.ready_ranges()[groups[i]];
    if (sink && !gradients.empty()) sink->begin(gradients);
    run(groups[i]);
    if (sink && !gradients.empty()) sink->ready(gradients);
  }
}

void StagePart::forward_without_rows() {
  for_each_layer([] {}, [](size_t) {});
}

void StagePart::loss_without_rows() { const Reading weights(weights_, weights_of_block(blocks_.size())); }

void StagePart::backward_without_rows(const Gradients& gradients) {
  for_each_group_of_backward(gradients.sink, [&](size_t group) {
    const ParameterRange& range = views_.table->ready_ranges()[group];
    if (gradients.write == Write::overwrite && !range.empty())
      workspace_.ops().zero(workspace_.context(), views_.gradients.rows_slice(range.begin, range.end - range.begin));
  });
}

void StagePart::backward_block(size_t index, const Slot& slot, const Pass& pass, const Workspace& work) {
  const BlockSaved saved = slot.memory.blocks[index].first(rows_of(slot));
  if (recompute_ == Recompute::full) blocks_[index].recompute(pass, saved, work);
  if (recompute_ == Recompute::attention) blocks_[index].recompute_attention(pass, saved, work);
  blocks_[index].backward(pass, saved, work);
}

void StagePart::loss(int64_t slot, View loss) {
  const Slot& own = slots_[static_cast<size_t>(slot)];
  const Reading weights(weights_, weights_of_block(blocks_.size()));
  head_->loss(pass_of(own, loss), head_input(own), workspace_.memory().work.first(rows_of(own)));
}

void StagePart::logits(int64_t slot, View logits) {
  const Slot& own = slots_[static_cast<size_t>(slot)];
  const Reading weights(weights_, weights_of_block(blocks_.size()));
  head_->logits(pass_of(own), head_input(own), workspace_.memory().work.first(rows_of(own)), logits);
}

void StagePart::next_logits(int64_t slot, View logits) {
  const Slot& own = slots_[static_cast<size_t>(slot)];
  const Reading weights(weights_, weights_of_block(blocks_.size()));
  const Pass pass = pass_of(own);
  const Workspace work = workspace_.memory().work.first({1, 1});
  const View one = work.row_logits.empty() ? work.chunk.first(1).logits : work.row_logits;
  int64_t sequence = 0;
  for (const int32_t end : last_rows_) {  // only the last row of a prompt predicts anything new
    head_->logits(pass, own.memory.output.rows_slice(end - 1, 1), work, one);
    pass.ops.cast(pass.context, one, logits.rows_slice(sequence++, 1));
  }
}

}  // namespace trireme
