#pragma once
// One transformer block. Pre-norm: x += attention(norm1(x)); x += mlp(norm2(x)), or both of the same x (parallel).
// Post-norm: x = norm1(x + attention(x)); x = norm2(x + mlp(x)). Norms of branches: x += branch_norm1(attention(x));
// x += branch_norm2(mlp(x)), with pre-norm's norms too or without.

#include <optional>

#include <span>

#include "model/delta.h"
#include "model/linear.h"
#include "model/memory.h"

namespace trireme {

/// What layers keep of the rows seen so far, per sequence.
struct KeyValueCache {
  std::span<const LayerCache> layers;  ///< that the rank has
  ConstView past;                      ///< [sequences] i32
  int64_t first_layer = 0;             ///< the model's number of the first one
  const LayerCache& of(int64_t layer) const { return layers[static_cast<size_t>(layer - first_layer)]; }
};

class Block {
 public:
  /// rotary: the layer's table of WorkspaceMemory, empty where queries and keys do not turn.
  Block(const Spec& spec, const ParameterViews& views, ConstView rotary, int64_t index);

  /// saved and work are for the rows of pass.batch. saved.x -> y, [rows, width]; y may be saved.x.
  void forward(const Pass& pass, const BlockSaved& saved, const Workspace& work, View y) const;
  /// Recomputes the contents of saved from x: forward() without its last product unless that is kept.
  void recompute(const Pass& pass, const BlockSaved& saved, const Workspace& work) const;
  /// Fills attention's output and statistics, or those of heads with a state, in saved again, from what was projected.
  void recompute_attention(const Pass& pass, const BlockSaved& saved, const Workspace& work) const;
  /// work.gradient: gradient of y in, gradient of saved.x out. Weight gradients by pass.write.
  void backward(const Pass& pass, const BlockSaved& saved, const Workspace& work) const;
  /// forward() for generation: attends to the cache and appends to it.
  void decode(const Pass& pass, const BlockSaved& saved, const Workspace& work, const KeyValueCache& cache,
              View y) const;

 private:
  void run(const Pass& pass, const BlockSaved& saved, const Workspace& work, const KeyValueCache* cache, View y) const;
  bool sums_branches_together(const Pass& pass) const;
  /// The norm that takes a branch's sum, and where its result goes; norm: nullptr where none follows.
  struct NormOfSum {
    const Norm* norm = nullptr;
    View y = {};
  };
  /// sum = residual + dropout(work.branch), and its norm.
  void add_branch(const Pass& pass, uint32_t site, ConstView residual, const Workspace& work, View sum,
                  const NormOfSum& then) const;
  /// What the branch's last linear takes, from the input of its first one.
  ConstView mix(const Pass& pass, ConstView input, const BlockSaved& saved, const Workspace& work,
                const KeyValueCache* cache) const;
  /// The same again in backward.
  ConstView mixed(const Pass& pass, const BlockSaved& saved, const Workspace& work) const;
  /// work.gated = attention's output times its gates.
  ConstView gate(const Pass& pass, const BlockSaved& saved, const Workspace& work) const;
  /// saved.middle = saved.x + dropout(attention(input)), and its norm; of branches that are summed together this rank's
  /// part of the second term.
  void attend(const Pass& pass, ConstView input, const BlockSaved& saved, const Workspace& work,
              const KeyValueCache* cache, const NormOfSum& then) const;
  /// attend() to the input of attention, then the input of the MLP: one of them normalised is work.norm.
  ConstView attend_pre(const Pass& pass, const BlockSaved& saved, const Workspace& work,
                       const KeyValueCache* cache) const;
  /// What attention takes, from saved.qkv and, where queries and keys are normalised, saved.squares.
  ConstView turned_queries(const Pass& pass, const BlockSaved& saved, const Workspace& work) const;
  QueryKeyNorm query_key_norm() const;
  void backward_query_keys(const Pass& pass, const BlockSaved& saved, const Workspace& work) const;
  /// y = residual + dropout(mlp(input)), and its norm; of branches that are summed together saved.x + both.
  void feed_forward(const Pass& pass, ConstView input, ConstView residual, const BlockSaved& saved,
                    const Workspace& work, View y, const NormOfSum& then) const;
  void add_to_gradient(const Pass& pass, const std::optional<Norm>& norm, ConstView x, const Workspace& work) const;
  void backward_pre(const Pass& pass, const BlockSaved& saved, const Workspace& work) const;
  void backward_post(const Pass& pass, const BlockSaved& saved, const Workspace& work) const;
  // dy: of the branch's sum; of branches that are summed together of all rows.
  /// work.branch = gradient of feed_forward()'s input.
  void backward_feed_forward(const Pass& pass, ConstView dy, ConstView input, const BlockSaved& saved,
                             const Workspace& work) const;
  /// Returns the gradient of the first linear's output. work.norm is lost.
  View backward_attend(const Pass& pass, ConstView dy, const BlockSaved& saved, const Workspace& work) const;
  /// A branch's end: its last matrix, and what is between that and the sum.
  struct BranchEnd {
    const Linear& last;
    const std::optional<Norm>& norm;
    ConstView before_norm;
    uint32_t site;
  };
  /// dattention or dactivation, of all rows, from the gradient of the branch's sum.  x: of the last matrix; dx may be
  /// x.
  void backward_branch(const Pass& pass, const BranchEnd& end, ConstView dy, ConstView x, const Workspace& work,
                       View dx) const;
  Dropout attention_dropout(const Pass& pass) const;
  /// Of the rows between layers; of branches that are summed together of all rows.
  Dropout residual_dropout(const Pass& pass, uint32_t site) const;
  /// The gradient of branches that share their sum, of all rows.
  void take_incoming(const Pass& pass, const Workspace& work) const;
  AttentionShape attention_shape(const Pass& pass) const;

  const Spec& spec_;
  ConstView rotary_;
  int64_t index_;
  int64_t kv_heads_, first_head_;  ///< this rank's
  std::optional<Norm> norm1_, norm2_, branch_norm1_, branch_norm2_;
  std::optional<Delta> delta_;  ///< instead of attention
  Linear mixer_in_, mixer_out_, mlp_in_, mlp_out_;
  LayerParameter q_gain_, k_gain_;  ///< empty where queries and keys are not normalised
};

}  // namespace trireme
