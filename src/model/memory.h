#pragma once
// The memory of a model's step, laid out once. Every tensor is taken here, so that the same code measures and
// allocates. R: rows of the largest micro-batch, C: width, I: inner width, H: heads, V: vocabulary rows.

#include <vector>

#include "model/spec.h"
#include "tensor/arena.h"

namespace trireme {

/// What a block keeps from forward for backward. Norm outputs and the activation are recomputed: they cost a pass over
/// memory, not a GEMM.
struct BlockSaved {
  View x;          ///< [R, C] input of the block
  View qkv;        ///< [R, H, 3, C / H]
  View attention;  ///< [R, H, C / H] before the output projection
  View lse;        ///< [H, R] log-sum-exp of the scores
  View middle;     ///< [R, C] after the attention branch; parallel: one for all blocks, nobody reads it again
  View inner;      ///< [R, I] before the activation
  View sum;        ///< [R, C] post-norm: what the second norm takes
};

/// What the embedding keeps. E: width of the token matrix.
struct EmbeddingSaved {
  View tokens;  ///< [R, E] before the projection; empty where there is none
  View sum;     ///< [R, C] before the norm; empty where there is none
};

/// What a head keeps beside its logits. Empty where the Spec's head has no use for it. S: sequences, at most R.
struct HeadSaved {
  View pre, hidden;  ///< [R, C] before and after the activation of a masked LM's transform, or [S, C] of a classifier
  View narrow, narrow_gradient;  ///< [R, E] after the projection
  View first, first_gradient;    ///< [S, C] each sequence's first row
};

/// Reused by every layer.
struct Workspace {
  View norm;                             ///< [R, C]
  View branch;                           ///< [R, C] output of a branch before dropout; gradients of it
  View activation;                       ///< [R, I]
  View wide;                             ///< [R, max(I, 3C)] gradients inside a branch
  View gradient;                         ///< [R, C] of the residual stream
  View mean, rstd;                       ///< [R]
  View logits;                           ///< [head_rows, V]; classifier: [R, classes]
  View head_max, head_sum, head_target;  ///< [head_rows]
  View incoming;       ///< [R, C] a block's incoming gradient, where its norms stand in the way (post-norm, parallel)
  View head_gradient;  ///< [V, E] a later micro-batch's sum over the head's row chunks; empty where nothing accumulates
  View head_bias_gradient;  ///< [V] the same of a decoder's bias
};

struct ModelShape {
  int64_t rows = 0;         ///< largest micro-batch
  bool training = true;     ///< keep every block's activations; else all blocks share one set
  int64_t head_rows = 0;    ///< rows whose logits exist at a time; 0: head_rows_for()
  bool accumulates = true;  ///< several micro-batches add to one gradient
  bool recompute = false;   ///< keep only each block's input and run its forward again in backward
};

/// Rows whose logits exist at a time: 640, fewer where 256 MB would not hold them, at most all.
int64_t head_rows_for(const Spec& spec, DType dtype, int64_t rows);

struct ModelMemory {
  ModelMemory(const Spec& spec, DType dtype, const ModelShape& shape, Arena& arena);
  EmbeddingSaved embedding;
  std::vector<BlockSaved> blocks;
  HeadSaved head;
  View rotary;  ///< [context, rotary dims] cosines and sines
  View output;  ///< [R, C] of the last block
  Workspace work;
  int64_t head_rows = 0;

 private:
  void take_block_or_head(const Spec& spec, DType dtype, const ModelShape& shape, Arena& arena);
};

/// Type of statistics and gradients beside activations of `dtype`.
inline DType stat_type(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

}  // namespace trireme
