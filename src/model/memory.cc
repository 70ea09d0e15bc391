#include "model/memory.h"

#include <algorithm>

#include "ops/ops.h"

namespace trireme {
namespace {

View first_of(View buffer, int64_t rows) { return buffer.empty() ? buffer : buffer.rows_slice(0, rows); }

/// Also of a view that an arena only measures.
bool is_taken(const View& view) { return view.shape().dims() > 0; }

/// [R, G, Q + 2, D]
Shape qkv_shape(const Spec& spec, const Layout& layout, int64_t rows) {
  return {rows, layout.share(spec.kv_heads()), spec.group() + 2, spec.head_dim()};
}

/// Of the sums of squares of queries and keys.
Shape squares_shape(const Spec& spec, const Layout& layout, int64_t rows) {
  const bool of_heads = spec.query_keys == QueryKeys::head;
  return {rows, of_heads ? layout.share(spec.kv_heads()) * (spec.group() + 1) : 2};
}

/// Which kinds of layers buffers are for.
struct LayerKinds {
  bool attention = false, state = false;
  LayerKinds(const Spec& spec, int64_t layer) : attention(!spec.has_state(layer)), state(spec.has_state(layer)) {}
  LayerKinds(const Spec& spec, const ModelPart& part) {
    for (int64_t layer = part.first_layer; layer < part.last_layer; ++layer) {
      state |= spec.has_state(layer);
      attention |= !spec.has_state(layer);
    }
  }
};

/// What recomputation of attention makes again.
void take_recomputed(const Spec& spec, const Layout& layout, DType dtype, int64_t rows, LayerKinds kinds,
                     BlockSaved& saved, Arena& arena) {
  const int64_t heads = layout.share(spec.heads);
  if (kinds.attention && !is_taken(saved.attention)) {
    saved.attention = arena.take(dtype, {rows, heads, spec.head_dim()});
    saved.lse = arena.take(stat_type(dtype), {heads, rows});
  }
  if (kinds.state && !is_taken(saved.delta)) {
    const DeltaShape delta = delta_shape(spec, layout);
    saved.delta = arena.take(dtype, {rows, delta.heads(), delta.value_size});
    saved.states = arena.take(stat_type(dtype), {delta_states(rows), delta.heads(), delta.key_size, delta.value_size});
  }
}

/// Everything that a block keeps except its input and the shared buffers.
BlockSaved take_block(const Spec& spec, const Layout& layout, DType dtype, const ModelShape& shape,
                      const BlockSaved& shared, LayerKinds kinds, Arena& arena) {
  const int64_t rows = shape.rows, own_rows = shape.own_rows(layout.tensor_size);
  BlockSaved saved = shared;
  if (kinds.attention) {
    saved.qkv = arena.take(dtype, qkv_shape(spec, layout, rows));
    if (spec.query_keys != QueryKeys::plain)
      saved.squares = arena.take(stat_type(dtype), squares_shape(spec, layout, rows));
    if (spec.attention_gate) saved.gates = arena.take(dtype, {rows, layout.share(spec.heads), spec.head_dim()});
  }
  if (kinds.state) {
    const DeltaShape delta = delta_shape(spec, layout);
    saved.projected = arena.take(dtype, {rows, delta.key_heads, delta.width()});
  }
  take_recomputed(spec, layout, dtype, rows, kinds, saved, arena);
  if (!is_taken(saved.middle)) saved.middle = arena.take(dtype, {own_rows, spec.width});
  saved.inner = arena.take(dtype, {rows, layout.share(spec.mlp_in_width())});
  if (spec.norm_place == NormPlace::post) saved.sum = arena.take(dtype, {own_rows, spec.width});
  if (spec.norms_branches()) {
    for (View* view : {&saved.branch1, &saved.branch2}) *view = arena.take(dtype, {own_rows, spec.width});
  }
  return saved;
}

HeadBuffers take_head(const Spec& spec, DType dtype, Rows of, Arena& arena) {
  HeadBuffers head;
  const int64_t rows = spec.head == HeadKind::classifier ? of.all : of.own;
  if (spec.head != HeadKind::language_model) {
    head.pre = arena.take(dtype, {rows, spec.width});
    head.hidden = arena.take(dtype, {rows, spec.width});
  }
  if (spec.head == HeadKind::classifier) {
    head.first = arena.take(dtype, {rows, spec.width});
    head.first_gradient = arena.take(dtype, {rows, spec.width});
  }
  if (spec.projected()) head.narrow = arena.take(dtype, {rows, spec.token_width()});
  return head;
}

bool keeps_blocks(const ModelShape& shape) { return shape.training && shape.recompute != Recompute::full; }

/// How many of a part's blocks only run forward in training. Other parts give the one below the gradient of their
/// input.
int64_t forward_only_blocks(const ModelPart& part, const ModelShape& shape) {
  return shape.training && part.embedding ? std::min(shape.backward_from, part.layers()) : 0;
}

}  // namespace

BlockSaved BlockSaved::first(Rows rows) const {
  const View own_lse = lse.empty() ? lse : lse.first_as({lse.rows(), rows.all});
  return {.x = first_of(x, rows.own),
          .qkv = first_of(qkv, rows.all),
          .squares = first_of(squares, rows.all),
          .attention = first_of(attention, rows.all),
          .lse = own_lse,
          .gates = first_of(gates, rows.all),
          .projected = first_of(projected, rows.all),
          .delta = first_of(delta, rows.all),
          .states = first_of(states, delta_states(rows.all)),
          .middle = first_of(middle, parallel ? rows.all : rows.own),
          .inner = first_of(inner, rows.all),
          .sum = first_of(sum, rows.own),
          .branch1 = first_of(branch1, rows.own),
          .branch2 = first_of(branch2, rows.own),
          .parallel = parallel};
}

EmbeddingSaved EmbeddingSaved::first(int64_t rows) const {
  return {.tokens = first_of(tokens, rows), .sum = first_of(sum, rows)};
}

HeadBuffers HeadBuffers::of_rows(int64_t rows) const {
  return {.pre = first_of(pre, rows),
          .hidden = first_of(hidden, rows),
          .narrow = first_of(narrow, rows),
          .first = first_of(first, rows),
          .first_gradient = first_of(first_gradient, rows)};
}

HeadChunk HeadChunk::first(int64_t rows) const {
  return {.logits = first_of(logits, rows),
          .max = first_of(max, rows),
          .sum = first_of(sum, rows),
          .target = first_of(target, rows)};
}

Workspace Workspace::first(Rows rows) const {
  Workspace out = *this;
  for (View* view : {&out.activation, &out.inner_gradient, &out.qkv_gradient, &out.attention_gradient, &out.turned,
                     &out.products, &out.joined, &out.gates_gradient, &out.gated, &out.mixed, &out.mixed_gradient,
                     &out.projected_gradient, &out.delta_gradient})
    *view = first_of(*view, rows.all);
  for (View* view : {&out.norm, &out.branch, &out.gradient, &out.narrow_gradient, &out.mean, &out.rstd,
                     &out.branch_mean, &out.branch_rstd})
    *view = first_of(*view, rows.own);
  out.incoming = first_of(incoming, parallel ? rows.all : rows.own);
  if (head.first.empty()) out.head = head.of_rows(rows.own);  // a classifier's are cut by the sequences of the batch
  return out;
}

ModelShape with_trained(ModelShape shape, const Spec& spec, const Trained& trained) {
  if (trained.all()) return shape;
  const bool has_bias = spec.head == HeadKind::masked_language_model;
  shape.trains_decoder = trained.includes(spec.tied_head ? "embedding.token.weight" : "head.weight") ||
                         (has_bias && trained.includes("head.bias"));
  const ParameterTable whole(spec, InitScheme::gpt2, {}, trained);
  const auto is_trained = [&](size_t group) { return !whole.ready_ranges()[group].empty(); };
  if (is_trained(whole.embedding_group())) return shape;
  while (shape.backward_from < spec.layers && !is_trained(whole.block_group(shape.backward_from)))
    ++shape.backward_from;
  return shape;
}

int64_t head_rows_for(const Spec& spec, DType dtype, int64_t rows, const HeadBlock& block) {
  const int64_t row_bytes = spec.vocabulary_rows * static_cast<int64_t>(size_of(dtype));
  return std::min(std::clamp(block.bytes / row_bytes / 128 * 128, int64_t{128}, block.rows),
                  std::max<int64_t>(rows, 1));
}

int64_t planned_head_rows(const Spec& spec, DType dtype, const ModelShape& shape, const HeadBlock& block) {
  if (!spec.has_decoder()) return shape.rows;
  return shape.head_rows > 0 ? shape.head_rows : std::min(shape.rows, head_rows_for(spec, dtype, shape.rows, block));
}

/// Blocks and head never run at the same time, so the branch buffers and the logits share memory.
void WorkspaceMemory::take_block_or_head(const Spec& spec, const Layout& layout, DType dtype, const ModelShape& shape,
                                         int64_t head_rows, Arena& arena) {
  const size_t start = arena.mark();
  const int64_t before_activation = layout.share(spec.mlp_in_width());
  work.activation = arena.take(dtype, {shape.rows, layout.share(spec.inner_width)});
  const DeltaShape delta = delta_shape(spec, layout);
  const int64_t rows = shape.rows, of_delta = layout.share(spec.delta_width());
  if (shape.training) {
    const View wide =
        arena.take(dtype, {rows, std::max({before_activation, layout.share(spec.qkv_width()), of_delta})});
    work.inner_gradient = wide.first_as({rows, before_activation});
    work.qkv_gradient = wide.first_as(qkv_shape(spec, layout, rows));
    if (spec.has_states()) work.projected_gradient = wide.first_as({rows, delta.key_heads, delta.width()});
  }
  const Shape attention{rows, layout.share(spec.heads), spec.head_dim()};
  if (spec.attention_gate) {
    work.joined = arena.take(dtype, {rows, layout.share(spec.kv_heads()), spec.query_vectors() + 2, spec.head_dim()});
    if (shape.training) work.gates_gradient = arena.take(dtype, attention);
  }
  if (spec.has_states()) {
    work.mixed = arena.take(dtype, {rows, delta.key_heads, delta.mixed_width()});
    if (shape.training) {
      work.mixed_gradient = arena.take(dtype, {rows, delta.key_heads, delta.mixed_width()});
      work.delta_gain_gradient = arena.take(stat_type(dtype), {delta.value_size});
    }
  }
  if (spec.attention_gate || spec.has_states())
    work.gated = arena.take(dtype, {rows, std::max(spec.attention_gate ? layout.share(spec.attention_width()) : 0,
                                                   layout.share(spec.delta_value_width()))});
  if (spec.query_keys != QueryKeys::plain) {
    work.turned = arena.take(dtype, qkv_shape(spec, layout, shape.rows));
    if (shape.training) work.products = arena.take(stat_type(dtype), squares_shape(spec, layout, shape.rows));
    if (shape.training && spec.query_keys == QueryKeys::head)
      work.gain_gradient = arena.take(stat_type(dtype), {2, spec.head_dim()});
  }
  const size_t blocks_end = arena.mark();
  if (!layout.part.head) return;
  arena.release(start);
  work.chunk.logits =
      arena.take(dtype, {head_rows, spec.has_decoder() ? layout.share(spec.vocabulary_rows) : spec.classes});
  arena.release(std::max(blocks_end, arena.mark()));
  if (!shape.training && layout.tensor_size > 1 && spec.has_decoder())
    work.row_logits = arena.take(dtype, {1, spec.vocabulary_rows});
}

WorkspaceMemory::WorkspaceMemory(const Spec& spec, const Layout& layout, DType dtype, const ModelShape& shape,
                                 const HeadBlock& head_block, Arena& arena) {
  const Rows rows{shape.rows, shape.own_rows(layout.tensor_size)};
  const int64_t width = spec.width, head_rows = planned_head_rows(spec, dtype, shape, head_block);
  const DType stat = stat_type(dtype);
  const ModelPart& part = layout.part;
  block.parallel = work.parallel = spec.residual == Residual::parallel;
  if (block.parallel) block.middle = arena.take(dtype, {rows.all, width});
  if (part.layers() > 0 && !keeps_blocks(shape)) {
    block = take_block(spec, layout, dtype, shape, block, {spec, part}, arena);
  } else if (part.layers() > 0 && shape.recompute == Recompute::attention) {
    take_recomputed(spec, layout, dtype, rows.all, {spec, part}, block, arena);
  }
  if (forward_only_blocks(layout.chunk(0).part, shape) > 0) {
    forward_only = keeps_blocks(shape) ? take_block(spec, layout, dtype, shape, block, {spec, part}, arena) : block;
    forward_only.x = arena.take(dtype, {rows.own, width});
  }
  if (spec.position == Position::rotary) rotary = arena.take(stat, {spec.context, spec.rotary_dims});
  if (spec.window_rotary_base > 0) window_rotary = arena.take(stat, {spec.context, spec.rotary_dims});
  const Shape attention{rows.all, layout.share(spec.heads), spec.head_dim()};
  const DeltaShape delta = delta_shape(spec, layout);
  const Shape of_delta{rows.all, delta.heads(), delta.value_size};
  const View norm = arena.take(
      dtype, {std::max(rows.own * width, shape.training ? std::max(attention.count(), of_delta.count()) : 0)});
  work.norm = norm.first_as({rows.own, width});
  if (shape.training) work.attention_gradient = norm.first_as(attention);
  if (shape.training && spec.has_states()) work.delta_gradient = norm.first_as(of_delta);
  work.branch = arena.take(dtype, {rows.own, width});
  work.mean = arena.take(stat, {rows.own});
  work.rstd = arena.take(stat, {rows.own});
  if (spec.norms_branches()) {
    for (View* view : {&work.branch_mean, &work.branch_rstd}) *view = arena.take(stat, {rows.own});
  }
  if (part.head) {
    work.head = take_head(spec, dtype, rows, arena);
    for (View* view : {&work.chunk.max, &work.chunk.sum, &work.chunk.target}) *view = arena.take(stat, {head_rows});
    if (shape.scored_sequences > 0) work.sequence_losses = arena.take(DType::f64, {shape.scored_sequences});
  }
  take_block_or_head(spec, layout, dtype, shape, head_rows, arena);
  if (!shape.training) return;
  work.gradient = arena.take(dtype, {rows.own, width});
  if (spec.norm_place != NormPlace::pre || work.parallel)
    work.incoming = arena.take(dtype, {work.parallel ? rows.all : rows.own, width});
  if (spec.projected() && (part.embedding || part.head))
    work.narrow_gradient = arena.take(dtype, {rows.own, spec.token_width()});
  if (!shape.accumulates || !shape.trains_decoder || !spec.has_decoder() || !part.head) return;
  const int64_t vocabulary = layout.share(spec.vocabulary_rows);
  work.head_gradient = arena.take(stat, {vocabulary, spec.token_width()});
  if (spec.head == HeadKind::masked_language_model) work.head_bias_gradient = arena.take(stat, {vocabulary});
}

SlotMemory::SlotMemory(const Spec& spec, const Layout& layout, DType dtype, const ModelShape& shape,
                       const WorkspaceMemory& shared, Arena& arena) {
  const int64_t rows = shape.own_rows(layout.tensor_size);
  const ModelPart& part = layout.part;
  if (part.embedding && spec.projected()) embedding.tokens = arena.take(dtype, {rows, spec.token_width()});
  if (part.embedding && spec.embedding_norm) embedding.sum = arena.take(dtype, {rows, spec.width});
  if (part.head || !shape.training) output = arena.take(dtype, {rows, spec.width});
  const int64_t forward_only = forward_only_blocks(part, shape);
  blocks.assign(static_cast<size_t>(forward_only), shared.forward_only);
  for (int64_t i = forward_only; i < part.layers(); ++i) {
    const LayerKinds kinds(spec, part.first_layer + i);
    BlockSaved saved =
        keeps_blocks(shape) ? take_block(spec, layout, dtype, shape, shared.block, kinds, arena) : shared.block;
    saved.x = shape.training ? arena.take(dtype, {rows, spec.width}) : output;  // without training blocks work in place
    blocks.push_back(saved);
  }
}

DeltaShape delta_shape(const Spec& spec, const Layout& layout, ConstView offsets) {
  return {.key_heads = static_cast<int>(layout.share(spec.delta_key_heads)),
          .group = static_cast<int>(spec.delta_group()),
          .key_size = static_cast<int>(spec.delta_key_size),
          .value_size = static_cast<int>(spec.delta_value_size),
          .offsets = offsets};
}

std::vector<LayerCache> take_cache(const Spec& spec, const Layout& layout, DType dtype, Arena& arena) {
  std::vector<LayerCache> layers;
  for (int64_t i = 0; i < layout.part.layers(); ++i) {
    LayerCache& layer = layers.emplace_back();
    if (spec.has_state(layout.part.first_layer + i)) {
      const DeltaShape delta = delta_shape(spec, layout);
      layer.window = arena.take(dtype, {1, spec.delta_taps - 1, delta.key_heads * delta.mixed_width()});
      layer.state = arena.take(stat_type(dtype), {1, delta.heads(), delta.key_size, delta.value_size});
      continue;
    }
    const bool windowed = spec.has_window(layout.part.first_layer + i);
    const int64_t positions = windowed ? std::min(spec.window, spec.context) : spec.context;
    layer.keys_values = arena.take(dtype, {1, 2 * layout.share(spec.kv_heads()), positions, spec.head_dim()});
  }
  return layers;
}

}  // namespace trireme
