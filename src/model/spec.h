#pragma once
// What a transformer is, as values: sizes and choices only. Families differ in these values and in a name map, never in
// code.

#include <cstdint>
#include <string>

#include "base/names.h"
#include "config/choices.h"
#include "model/rotary.h"
#include "ops/ops.h"

namespace trireme {

/// Which keys a query sees in its sequence.
enum class Mask : uint8_t { causal, full };
template <>
struct Names<Mask> {
  static constexpr Named<Mask> kAll[] = {{"causal", Mask::causal}, {"full", Mask::full}};
};

enum class HeadKind : uint8_t {
  language_model,         ///< logits of the next token for every row
  masked_language_model,  ///< norm(f(linear(x))), then logits of the token itself, with a bias
  classifier,             ///< of a sequence's first row: linear(f(linear(x))); one class: regression
};
template <>
struct Names<HeadKind> {
  static constexpr Named<HeadKind> kAll[] = {{"language-model", HeadKind::language_model},
                                             {"masked-language-model", HeadKind::masked_language_model},
                                             {"classifier", HeadKind::classifier}};
};

/// Which linears and norms have a bias.
struct Biases {
  bool qkv = true, attention_out = true, mlp_in = true, mlp_out = true, norm = true;
  bool operator==(const Biases&) const = default;
};

struct Spec {
  int64_t vocabulary = 0;  ///< logical size: ids that exist
  int64_t vocabulary_rows =
      0;                ///< rows in memory, >= vocabulary; rows above it never get probability and are never stored
  int64_t context = 0;  ///< positions that exist
  int64_t layers = 0, heads = 0, width = 0;
  int64_t inner_width = 0;  ///< of the MLP, usually 4 x width
  Activation activation = Activation::gelu_tanh;
  Mask mask = Mask::causal;
  NormPlace norm_place = NormPlace::pre;
  Residual residual = Residual::sequential;
  bool final_norm = true;  ///< a norm between the last block and the head

  Position position = Position::learned;
  int64_t position_offset = 0;  ///< learned: rows of the table before that of position 0
  int64_t rotary_dims = 0;      ///< rotary: leading values of every query and key that turn, even
  float rotary_base = 10000;

  int64_t embedding_width = 0;  ///< of the token matrix; 0: width. Another one is projected in, and out before the head
  int64_t token_types = 0;      ///< rows of a table that is added too; 0: none
  bool embedding_norm = false;  ///< on the sum of the embeddings

  HeadKind head = HeadKind::language_model;
  bool tied_head = true;                          ///< head weight = token embedding; false for classifiers
  int64_t classes = 0;                            ///< classifier
  Activation head_activation = Activation::tanh;  ///< classifier: of its first linear; masked LM: of its transform

  Biases biases;
  float norm_epsilon = 1e-5f;
  float embedding_dropout = 0, attention_dropout = 0, residual_dropout = 0;
  bool attention_residual_dropout = true;  ///< false: residual_dropout only after the MLP
  float head_dropout = 0;                  ///< classifier: before its last linear
  bool head_input_dropout = false;         ///< classifier: head_dropout before its first linear too

  int64_t key_heads = 0;  ///< heads of keys and values; they divide heads, whose groups share them; 0: heads
  int64_t head_size = 0;  ///< values of a query; 0: width / heads
  NormKind norm = NormKind::layer;
  float norm_offset = 0;  ///< rms: 0 or 1; a gain is norm_offset + weight
  bool gated = false;  ///< the MLP is out(activation(gate) * up); its first matrix has each gate's row before its up's
  QueryKeys query_keys = QueryKeys::plain;
  float attention_scale = 0;  ///< of scores; 0: head_dim^-1/2
  float attention_cap = 0;    ///< scores are cap tanh(score / cap); 0: none
  int64_t window = 0;         ///< keys that a query of a windowed layer sees, its own included
  /// A letter per layer: F sees all keys before, W a window of them; lower case: without rotary positions; D: heads
  /// with a state instead of keys and values (gated DeltaNet). Empty: F.
  std::string attention_layers;
  float window_rotary_base = 0;  ///< rotary base of windowed layers, unscaled; 0: they turn as the others
  RotaryScaling rotary;
  float embedding_scale = 1;  ///< multiplies the sum of the embeddings; rounded to the type of activations
  float residual_scale = 1;   ///< multiplies a branch before it is added
  float logits_scale = 1;     ///< multiplies the logits
  float logits_cap = 0;       ///< logits are cap tanh(logit / cap), after the scale; 0: none

  bool attention_gate = false;  ///< attention's outputs times the sigmoid of a gate, whose row follows its query's
  int64_t delta_key_heads = 0, delta_value_heads = 0;  ///< of layers D; the first divide the second; 0: no such layer
  int64_t delta_key_size = 0, delta_value_size = 0;    ///< values of a query or key; of a value
  int64_t delta_taps = 0;                              ///< rows that their short convolution sees

  std::string adapters;       ///< low-rank adapters of its linears (model/adapters.h); empty: none
  float adapter_dropout = 0;  ///< of their inputs
  bool operator==(const Spec&) const = default;

  /// Calls f(name, field) for every field, by its name and in its place in a manifest.
  template <class F>
  void visit(F&& f) {
    visit_fields(*this, f);
  }
  template <class F>
  void visit(F&& f) const {
    visit_fields(*this, f);
  }

  int64_t head_dim() const { return head_size > 0 ? head_size : width / heads; }
  int64_t kv_heads() const { return key_heads > 0 ? key_heads : heads; }
  float score_scale() const;                            ///< of attention: attention_scale, or head_dim^-1/2
  int64_t group() const { return heads / kv_heads(); }  ///< query heads per key head
  int64_t attention_width() const { return heads * head_dim(); }
  /// Query heads and gates per key head.
  int64_t query_vectors() const { return attention_gate ? 2 * group() : group(); }
  int64_t qkv_width() const { return kv_heads() * (query_vectors() + 2) * head_dim(); }
  int64_t delta_group() const { return delta_key_heads > 0 ? delta_value_heads / delta_key_heads : 0; }
  int64_t delta_value_width() const { return delta_value_heads * delta_value_size; }
  /// Channels of the convolution: queries, keys and values.
  int64_t delta_mixed_width() const { return 2 * delta_key_heads * delta_key_size + delta_value_width(); }
  /// Outputs of a D layer's first linear: those, gates, betas and decays.
  int64_t delta_width() const { return delta_mixed_width() + delta_value_width() + 2 * delta_value_heads; }
  int64_t mlp_in_width() const { return gated ? 2 * inner_width : inner_width; }
  bool is_plain() const;  ///< has none of the choices of decoders since Llama, from key_heads on
  bool has_window(int64_t layer) const;
  bool has_state(int64_t layer) const;  ///< a layer D
  bool has_states() const { return delta_key_heads > 0; }
  bool turns(int64_t layer) const;  ///< its queries and keys turn by their positions
  /// The norms before branches, pre-norm's, and those behind them.
  bool norms_inputs() const { return norm_place == NormPlace::pre || norm_place == NormPlace::both; }
  bool norms_branches() const { return norm_place == NormPlace::branch || norm_place == NormPlace::both; }
  int64_t token_width() const { return embedding_width > 0 ? embedding_width : width; }
  bool projected() const { return token_width() != width; }
  bool has_decoder() const { return head != HeadKind::classifier; }  ///< a head with one logit per token id
  bool has_dropout() const;
  /// Throws Error::config naming the field and the valid values.
  void validate() const;

 private:
  template <class S, class F>
  static void visit_fields(S& spec, F& f) {
    f("vocabulary", spec.vocabulary);
    f("vocabulary_rows", spec.vocabulary_rows);
    f("context", spec.context);
    f("layers", spec.layers);
    f("heads", spec.heads);
    f("width", spec.width);
    f("inner_width", spec.inner_width);
    f("activation", spec.activation);
    f("mask", spec.mask);
    f("norm_place", spec.norm_place);
    f("residual", spec.residual);
    f("final_norm", spec.final_norm);
    f("position", spec.position);
    f("position_offset", spec.position_offset);
    f("rotary_dims", spec.rotary_dims);
    f("rotary_base", spec.rotary_base);
    f("embedding_width", spec.embedding_width);
    f("token_types", spec.token_types);
    f("embedding_norm", spec.embedding_norm);
    f("head", spec.head);
    f("tied_head", spec.tied_head);
    f("classes", spec.classes);
    f("head_activation", spec.head_activation);
    f("qkv_bias", spec.biases.qkv);
    f("attention_out_bias", spec.biases.attention_out);
    f("mlp_in_bias", spec.biases.mlp_in);
    f("mlp_out_bias", spec.biases.mlp_out);
    f("norm_bias", spec.biases.norm);
    f("norm_epsilon", spec.norm_epsilon);
    f("embedding_dropout", spec.embedding_dropout);
    f("attention_dropout", spec.attention_dropout);
    f("residual_dropout", spec.residual_dropout);
    f("attention_residual_dropout", spec.attention_residual_dropout);
    f("head_dropout", spec.head_dropout);
    f("head_input_dropout", spec.head_input_dropout);
    // What follows came with format version 4 of checkpoints.
    f("key_heads", spec.key_heads);
    f("head_size", spec.head_size);
    f("norm", spec.norm);
    f("norm_offset", spec.norm_offset);
    f("gated", spec.gated);
    f("query_keys", spec.query_keys);
    f("attention_scale", spec.attention_scale);
    f("attention_cap", spec.attention_cap);
    f("window", spec.window);
    f("attention_layers", spec.attention_layers);
    f("window_rotary_base", spec.window_rotary_base);
    RotaryScaling::visit_fields(spec.rotary, f);
    f("embedding_scale", spec.embedding_scale);
    f("residual_scale", spec.residual_scale);
    f("logits_scale", spec.logits_scale);
    f("logits_cap", spec.logits_cap);
    // Only a model with gated attention or layers with a state has these in its manifest.
    f("attention_gate", spec.attention_gate);
    f("delta_key_heads", spec.delta_key_heads);
    f("delta_value_heads", spec.delta_value_heads);
    f("delta_key_size", spec.delta_key_size);
    f("delta_value_size", spec.delta_value_size);
    f("delta_taps", spec.delta_taps);
    // Only a model with adapters has the rest in its manifest.
    f("adapters", spec.adapters);
    f("adapter_dropout", spec.adapter_dropout);
  }
};

/// Parameters of a block's matrices, of the convolution of a layer with a state, too.
double block_products(const Spec& spec, int64_t layer);
/// Multiplications of a token with the states of a layer's heads: its key reads and writes each, its query reads it. 0
/// of attention.
double state_products(const Spec& spec, int64_t layer);
/// Keys that a query of the layer sees on average in a sequence of that many rows: half of them (full mask: all), fewer
/// in a window, none where it has a state.
double visible_keys(const Spec& spec, int64_t layer, int64_t sequence);
/// 6 x matmul parameters (head at logical vocabulary, embeddings not counted) + 12 x width of the attention x visible
/// keys of every layer + 6 x products with states: model FLOPs of one trained token, forward and backward. 798 MFLOP
/// for GPT-2 124M at T = 1024.
double train_flops_per_token(const Spec& spec, int64_t sequence);

}  // namespace trireme
