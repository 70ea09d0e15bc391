#pragma once
// What a transformer is, as values: sizes and choices only. Families differ in these values and in a name map, never in
// code.

#include <cstdint>
#include <string>

#include "ops/ops.h"

namespace trireme {

/// Which linears and norms have a bias.
struct Biases {
  bool qkv = true, attention_out = true, mlp_in = true, mlp_out = true, norm = true;
  bool operator==(const Biases&) const = default;
};

struct Spec {
  int64_t vocabulary = 0;  ///< logical size: ids that exist
  int64_t vocabulary_rows =
      0;                ///< rows in memory, >= vocabulary; rows above it never get probability and are never stored
  int64_t context = 0;  ///< positions in the learned table
  int64_t layers = 0, heads = 0, width = 0;
  int64_t inner_width = 0;  ///< of the MLP, usually 4 x width
  Activation activation = Activation::gelu_tanh;
  bool tied_head = true;  ///< head weight = token embedding
  Biases biases;
  float norm_epsilon = 1e-5f;
  float embedding_dropout = 0, attention_dropout = 0, residual_dropout = 0;
  bool operator==(const Spec&) const = default;

  int64_t head_dim() const { return width / heads; }
  /// Throws Error::config naming the field and the valid values.
  void validate() const;
};

/// 6 x matmul parameters (head at logical vocabulary, embeddings not counted) + 6 x layers x width x T for causal
/// attention: model FLOPs of one trained token, forward and backward. 798 MFLOP for GPT-2 124M at T = 1024.
double train_flops_per_token(const Spec& spec, int64_t sequence);

/// "gpt2-124m", "gpt2-355m", "gpt2-774m", "gpt2-1558m" (also gpt2, gpt2-medium, gpt2-large, gpt2-xl). Throws
/// Error::config listing the names.
Spec preset(const std::string& name);

}  // namespace trireme
