#pragma once
// The memory of a model's step, laid out once: a workspace that every layer and every micro-batch uses again, and a
// slot per micro-batch between its forward and its backward. Every tensor is taken here, so that the same code measures
// and allocates. R: rows of the largest micro-batch, C: width, E: width of the token matrix, I: inner width, M: outputs
// of the MLP's first matrix, I or 2 I, H: heads, G: heads of keys, Q: queries of each, D: head size, V: vocabulary
// rows, S: sequences, at most R; of layers with a state K: key heads, H': value heads, D': their size, Y: key size, W
// and X: outputs of the first linear and channels of the convolution per key head, B: delta_states(R). N: rows between
// layers: R, or, where tensor ranks share them (ModelShape::sequence_parallel), this rank's own.
//
// Buffers are planned for R and N rows; first(rows) is the part that a micro-batch of that many rows uses, and what
// layers get.

#include <vector>

#include "config/choices.h"
#include "model/parameter_table.h"
#include "tensor/arena.h"

namespace trireme {

struct HeadBlock;

/// Rows of a micro-batch.
struct Rows {
  int64_t all = 0, own = 0;  ///< R and N
};

/// A block's buffers from forward for backward. Norm outputs and the activation are recomputed: they cost a pass over
/// memory, not a GEMM.
struct BlockSaved {
  View x;                 ///< [N, C] input of the block
  View qkv;               ///< [R, G, Q + 2, D] turned; where queries and keys are normalised, as they were projected
  View squares;           ///< [R, G (Q + 1)] or [R, 2] sums of squares of queries and keys that are normalised
  View attention;         ///< [R, H, D] before the output projection
  View lse;               ///< [H, R] log-sum-exp of the scores
  View gates;             ///< [R, H, D] of attention's outputs
  View projected;         ///< [R, K, W] of a layer with a state, instead of those above, as are the next two
  View delta, states;     ///< [R, H', D'] before norm and gate; [B, H', Y, D']
  View middle;            ///< [N, C] after the attention branch; parallel: [R, C], one for all blocks, never read again
  View inner;             ///< [R, M] before the activation
  View sum;               ///< [N, C] post-norm: input of the second norm
  View branch1, branch2;  ///< [N, C] inputs of the norms behind branches
  bool parallel = false;  ///< residual
  BlockSaved first(Rows rows) const;
};

/// The embedding's buffers from forward for backward.
struct EmbeddingSaved {
  View tokens;  ///< [N, E] before the projection; empty if absent
  View sum;     ///< [N, C] before the norm; empty if absent
  EmbeddingSaved first(int64_t rows) const;
};

/// A head's buffers within one call, besides its logits. Empty where the Spec's head has no use for it.
struct HeadBuffers {
  View pre, hidden;  ///< [N, C] before and after the activation of a masked LM's transform; of a classifier [S, C]
  View narrow;       ///< [N, E] after the projection
  View first, first_gradient;  ///< [S, C] each sequence's first row
  HeadBuffers of_rows(int64_t rows) const;
};

/// The rows of a head that have logits at a time. K: head_rows of the plan.
struct HeadChunk {
  View logits;            ///< [K, V]; classifier: [R, classes]
  View max, sum, target;  ///< [K] of softmax_stats
  HeadChunk first(int64_t rows) const;
};

/// Reused by every layer.
struct Workspace {
  View norm;                 ///< [N, C]
  View branch;               ///< [N, C] output of a branch before dropout; gradients of it
  View activation;           ///< [R, I]
  View inner_gradient;       ///< [R, M]; shares its place with qkv_gradient
  View qkv_gradient;         ///< [R, G, Q + 2, D]
  View attention_gradient;   ///< [R, H, D]; shares its place with norm
  View joined;               ///< [R, G, 2 Q + 2, D] queries with their gates, keys and values; gradients of them
  View gates_gradient;       ///< [R, H, D]
  View gated;                ///< [R, H, D] or [R, H', D'] behind gates: what the branch's last linear takes
  View mixed;                ///< [R, K, X] behind the convolution
  View mixed_gradient;       ///< [R, K, X]
  View projected_gradient;   ///< [R, K, W]; shares its place with qkv_gradient
  View delta_gradient;       ///< [R, H', D']; shares its place with norm
  View delta_gain_gradient;  ///< [D'] before the sum over tensor ranks
  View turned;               ///< [R, G, Q + 2, D] queries and keys that are normalised, turned
  View products;             ///< as squares, in backward
  View gain_gradient;        ///< [2, D] of queries and keys of this rank's heads, before the sum over tensor ranks
  View gradient;             ///< [N, C] of the residual stream
  View incoming;  ///< a block's incoming gradient, if its norms would overwrite it: post-norm [N, C], parallel [R, C];
                  ///< or [N, C] a branch's before the norm behind it
  View narrow_gradient;  ///< [N, E] between the token matrix and its projection, in the head and in the embedding
  View mean, rstd;       ///< [N]
  View branch_mean, branch_rstd;  ///< [N] of the norms behind branches
  HeadBuffers head;
  HeadChunk chunk;       ///< [K, ...], whatever the micro-batch
  View sequence_losses;  ///< [ModelShape::scored_sequences] f64
  View row_logits;       ///< [1, all V] without training where tensor ranks have part of them each
  View head_gradient;    ///< [V, E] a later micro-batch's sum over the head's chunks; empty where nothing accumulates
  View head_bias_gradient;  ///< [V] the same of a decoder's bias
  bool parallel = false;    ///< residual
  Workspace first(Rows rows) const;
};

struct ModelShape {
  int64_t rows = 0;                       ///< largest micro-batch
  bool training = true;                   ///< keep every block's activations; else all blocks share one set
  int64_t head_rows = 0;                  ///< rows whose logits exist at a time; 0: head_rows_for()
  bool accumulates = true;                ///< several micro-batches add to one gradient
  bool trains_decoder = true;             ///< a decoder's matrix or its bias has a gradient
  int64_t backward_from = 0;              ///< first block of backward: below it everything is frozen
  Recompute recompute = Recompute::none;  ///< full: keep only each block's input and run its forward again in backward
  int64_t slots = 1;                      ///< micro-batches between forward and backward at a time
  std::vector<int64_t> chunk_slots{};     ///< the same of each chunk, where a stage has several; empty: slots
  bool sequence_parallel = false;         ///< tensor ranks share the rows between layers
  int64_t scored_sequences = 0;           ///< sequences of the largest micro-batch with a SequenceLoss; 0: none has one

  /// Of one of a stage's parts.
  ModelShape of_chunk(size_t index) const {
    ModelShape shape = *this;
    if (!chunk_slots.empty()) shape.slots = chunk_slots[index];
    shape.chunk_slots.clear();
    return shape;
  }
  /// The most rows that a rank has between layers.
  int64_t own_rows(int tensor_size) const { return sequence_parallel ? (rows + tensor_size - 1) / tensor_size : rows; }
};

/// The shape for these trained parameters: trains_decoder and backward_from.
ModelShape with_trained(ModelShape shape, const Spec& spec, const Trained& trained);

/// Rows whose logits exist at a time: those of the block (Ops::head_block()), at most all.
int64_t head_rows_for(const Spec& spec, DType dtype, int64_t rows, const HeadBlock& block);
/// Of a plan; all rows where the head has no decoder.
int64_t planned_head_rows(const Spec& spec, DType dtype, const ModelShape& shape, const HeadBlock& block);

/// Buffers shared by all micro-batches of a part.
struct WorkspaceMemory {
  WorkspaceMemory(const Spec& spec, const Layout& layout, DType dtype, const ModelShape& shape, const HeadBlock& block,
                  Arena& arena);
  Workspace work;
  BlockSaved block;    ///< shared by blocks; with full recomputation or without training: everything except x
  View rotary;         ///< [context, rotary dims] cosines and sines; empty where positions are learned
  View window_rotary;  ///< the same of windowed layers with their own base
  /// Shared by the blocks below ModelShape::backward_from, which work in place: everything, x too.
  BlockSaved forward_only;

  /// The table of a layer; empty: its queries and keys do not turn.
  ConstView rotary_of(const Spec& spec, int64_t layer) const {
    if (!spec.turns(layer)) return {};
    return spec.has_window(layer) && !window_rotary.empty() ? window_rotary : rotary;
  }

 private:
  void take_block_or_head(const Spec& spec, const Layout& layout, DType dtype, const ModelShape& shape,
                          int64_t head_rows, Arena& arena);
};

/// Buffers of one micro-batch from its forward to its backward.
struct SlotMemory {
  SlotMemory(const Spec& spec, const Layout& layout, DType dtype, const ModelShape& shape,
             const WorkspaceMemory& shared, Arena& arena);
  EmbeddingSaved embedding;
  std::vector<BlockSaved> blocks;  ///< of the part's blocks; without training every x is the same buffer
  View output;                     ///< [N, C] input of the head; empty without a head

  /// Input of block `index` of the part; after the last one, of the head. Empty if the part has no head.
  View input(size_t index) const { return index < blocks.size() ? blocks[index].x : output; }
};

/// What generation keeps of one layer: [sequences, 2 x kv heads, positions, head_dim], keys and values as
/// Ops::attention_cached() has them; or the window and the state of Ops::short_convolution_cached() and
/// Ops::delta_rule_cached().
struct LayerCache {
  View keys_values, window, state;
};
/// Of one sequence, of each of the rank's layers. positions: those of the context, in a windowed layer of its window.
std::vector<LayerCache> take_cache(const Spec& spec, const Layout& layout, DType dtype, Arena& arena);

/// Heads of layers with a state that the rank has; offsets: of the batch.
DeltaShape delta_shape(const Spec& spec, const Layout& layout, ConstView offsets = {});

/// [rows, heads, ...] as [rows, all of them].
template <class AnyView>
AnyView matrix(AnyView v) {
  int64_t columns = 1;
  for (int d = 1; d < v.shape().dims(); ++d) columns *= v.shape()[d];
  return v.reshape({v.rows(), columns});
}

/// Type of statistics and gradients beside activations of `dtype`.
inline DType stat_type(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

}  // namespace trireme
