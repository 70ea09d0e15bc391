#pragma once
// One transformer block: x += attention(norm1(x)); x += mlp(norm2(x)).

#include "model/linear.h"
#include "model/memory.h"

namespace trireme {

/// Keys and values of the rows seen so far, per sequence.
struct KeyValueCache {
  View layers;     ///< [layers x sequences, 2 x heads, capacity, head_dim]
  ConstView past;  ///< [sequences] i32
  int64_t sequences = 0;
};

class Block {
 public:
  Block(const Spec& spec, const ParameterViews& views, int64_t index);

  /// saved.x -> y, [rows, width]; y may be saved.x.
  void forward(const Pass& pass, const BlockSaved& saved, const Workspace& work, View y) const;
  /// Fills what saved keeps beside x again, from x: forward() without its last product.
  void recompute(const Pass& pass, const BlockSaved& saved, const Workspace& work) const;
  /// work.gradient: gradient of y in, gradient of saved.x out. Weight gradients by pass.write.
  void backward(const Pass& pass, const BlockSaved& saved, const Workspace& work) const;
  /// forward() for generation: attends to the cache and appends to it.
  void decode(const Pass& pass, const BlockSaved& saved, const Workspace& work, const KeyValueCache& cache,
              View y) const;

 private:
  void attend(const Pass& pass, const BlockSaved& saved, const Workspace& work, const KeyValueCache* cache) const;
  void feed_forward(const Pass& pass, const BlockSaved& saved, const Workspace& work, View y) const;
  void backward_feed_forward(const Pass& pass, const BlockSaved& saved, const Workspace& work) const;
  void backward_attend(const Pass& pass, const BlockSaved& saved, const Workspace& work) const;
  AttentionShape attention_shape(const Pass& pass) const;

  const Spec& spec_;
  int64_t index_;
  Norm norm1_, norm2_;
  Linear qkv_, attention_out_, mlp_in_, mlp_out_;
};

}  // namespace trireme
