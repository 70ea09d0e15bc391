#pragma once
// Every choice that a Spec has, as small models.

#include "tests/model/model_fixture.h"

namespace trireme {

inline void make_post_norm(Spec& s) { s.norm_place = NormPlace::post, s.final_norm = false; }
inline void make_rotary(Spec& s, int64_t dims) {
  s.position = Position::rotary, s.rotary_dims = dims, s.rotary_base = 50;
}
inline void make_encoder(Spec& s) {
  make_post_norm(s);
  s.mask = Mask::full, s.token_types = 2, s.embedding_norm = true, s.activation = Activation::gelu_erf;
}
inline void make_classifier(Spec& s, int64_t classes) {
  make_encoder(s);
  s.head = HeadKind::classifier, s.tied_head = false, s.classes = classes;
}

/// What most decoders since 2023 have: rms norms, a gated MLP, groups of heads, rotary positions, hardly any bias.
inline void make_llama(Spec& s) {
  make_rotary(s, s.head_dim());
  s.norm = NormKind::rms, s.gated = true, s.activation = Activation::silu, s.key_heads = s.heads / 2;
  s.biases = {.qkv = false, .attention_out = false, .mlp_in = false, .mlp_out = false, .norm = false};
}

/// Layers with a state beside gated attention; attention_layers is the caller's.
inline void make_states(Spec& s) {
  make_llama(s);
  s.norm_offset = 1, s.query_keys = QueryKeys::head, s.attention_gate = true;
  s.delta_key_heads = 2, s.delta_value_heads = 4, s.delta_key_size = 4, s.delta_value_size = 6, s.delta_taps = 3;
}

struct SpecCase {
  const char* name;
  void (*change)(Spec&);
};

inline const SpecCase kSpecCases[] = {
    {"gelu_tanh_tied", [](Spec&) {}},
    {"gelu_erf_own_head", [](Spec& s) { s.activation = Activation::gelu_erf, s.tied_head = false; }},
    {"no_biases",
     [](Spec& s) {
       s.biases = {.qkv = false, .attention_out = false, .mlp_in = false, .mlp_out = false, .norm = false};
     }},
    {"dropout", [](Spec& s) { s.embedding_dropout = 0.2f, s.attention_dropout = 0.3f, s.residual_dropout = 0.25f; }},
    {"one_head_relu", [](Spec& s) { s.heads = 1, s.activation = Activation::relu; }},
    {"post_norm_without_final_norm", [](Spec& s) { make_post_norm(s), s.residual_dropout = 0.25f; }},
    {"rotary_parallel",
     [](Spec& s) {
       make_rotary(s, 2), s.residual = Residual::parallel, s.tied_head = false, s.residual_dropout = 0.2f;
     }},
    {"rotary_sequential", [](Spec& s) { make_rotary(s, 4), s.tied_head = false; }},
    {"projected_embedding_and_offset_positions",
     [](Spec& s) { make_post_norm(s), s.embedding_width = 6, s.position_offset = 2, s.activation = Activation::relu; }},
    {"projected_embedding_and_final_norm", [](Spec& s) { s.embedding_width = 12, s.position_offset = 2; }},
    {"pre_norm_without_final_norm", [](Spec& s) { s.final_norm = false; }},
    {"masked_language_model",
     [](Spec& s) {
       make_encoder(s);
       s.head = HeadKind::masked_language_model, s.head_activation = Activation::gelu_erf;
     }},
    {"masked_language_model_own_head",
     [](Spec& s) {
       make_encoder(s);
       s.head = HeadKind::masked_language_model, s.head_activation = Activation::relu, s.tied_head = false;
     }},
    {"classifier", [](Spec& s) { make_classifier(s, 3), s.head_dropout = 0.4f; }},
    {"classifier_with_relu_and_input_dropout",
     [](Spec& s) {
       make_classifier(s, 2);
       s.head_activation = Activation::relu, s.head_dropout = 0.4f, s.head_input_dropout = true, s.token_types = 0;
       s.residual_dropout = 0.2f, s.attention_residual_dropout = false;
     }},
    {"regression", [](Spec& s) { make_classifier(s, 1); }},
    {"rms_gated_groups", [](Spec& s) { make_llama(s), s.residual_dropout = 0.25f; }},
    {"rms_gated_with_biases_own_head_and_scaled_positions",
     [](Spec& s) {
       make_llama(s);
       s.tied_head = false, s.biases.qkv = s.biases.mlp_in = true;
       s.rotary = {.kind = RotaryKind::llama3, .factor = 4, .attention_factor = 1.25f, .original_context = 4};
     }},
    {"normalised_heads_apart_from_width",
     [](Spec& s) {
       make_llama(s);
       s.head_size = 10, s.rotary_dims = 6, s.query_keys = QueryKeys::head, s.attention_dropout = 0.2f;
     }},
    {"norms_of_branches_and_normalised_projections",
     [](Spec& s) {
       make_llama(s);
       s.norm_place = NormPlace::branch, s.query_keys = QueryKeys::projection, s.residual_dropout = 0.25f;
     }},
    {"norms_on_both_sides_with_offset_and_caps",
     [](Spec& s) {
       make_llama(s);
       s.norm_place = NormPlace::both, s.norm_offset = 1, s.query_keys = QueryKeys::head;
       s.activation = Activation::gelu_tanh, s.embedding_scale = 2.75f, s.logits_cap = 3, s.attention_cap = 1.5f;
     }},
    {"scaled_branches_logits_and_scores",
     [](Spec& s) {
       make_llama(s);
       s.embedding_scale = 3, s.residual_scale = 0.22f, s.logits_scale = 0.25f, s.attention_scale = 0.4f;
       s.residual_dropout = 0.25f;
     }},
    {"scaled_logits_of_projected_embeddings",
     [](Spec& s) { s.embedding_width = 6, s.logits_scale = 0.5f, s.logits_cap = 2, s.embedding_norm = false; }},
    {"scaled_logits_without_a_norm", [](Spec& s) { s.final_norm = false, s.logits_scale = 0.5f; }},
    {"scaled_parallel_branches",
     [](Spec& s) { make_rotary(s, 2), s.residual = Residual::parallel, s.residual_scale = 0.5f; }},
    {"a_layer_without_positions_and_squared_relu",
     [](Spec& s) { make_llama(s), s.gated = false, s.activation = Activation::relu2, s.attention_layers = "Ff"; }},
    {"windows_with_positions_of_their_own",
     [](Spec& s) {
       make_llama(s);
       s.window = 3, s.attention_layers = "WF", s.window_rotary_base = 20;
       s.rotary = {.kind = RotaryKind::linear, .factor = 8};
     }},
    {"adapters_of_every_linear",
     [](Spec& s) {
       s.adapters =
           "attention.qkv in 0-1: rank 3, scale 0.5; attention.out in 0-1: rank 2, scale 2; mlp.in in 1: rank 5, scale "
           "1; mlp.out in 0: rank 4, scale 0.75";
     }},
    {"adapters_of_parallel_branches",
     [](Spec& s) {
       make_rotary(s, 2), s.residual = Residual::parallel, s.tied_head = false;
       s.adapters = "attention.qkv in 0-1: rank 3, scale 0.5; attention.out in 1: rank 2, scale 2";
     }},
    {"adapters_of_queries_values_gates_and_ups",
     [](Spec& s) {
       make_llama(s);
       s.adapters =
           "attention.qkv.query in 0-1: rank 3, scale 0.5; attention.qkv.value in 1: rank 2, scale 2; mlp.in.gate in "
           "0-1: rank 2, scale 1; mlp.in.up in 0: rank 12, scale 0.75";
     }},
    {"adapters_of_keys_with_dropout_after_norms",
     [](Spec& s) {
       make_post_norm(s);
       s.adapters = "attention.qkv.key in 0-1: rank 2, scale 2; mlp.in in 1: rank 3, scale 1";
       s.adapter_dropout = 0.3f;
     }},
    {"heads_with_a_state_and_gated_attention",
     [](Spec& s) {
       make_states(s);
       s.attention_layers = "DF", s.residual_dropout = 0.25f;
     }},
    {"heads_with_a_state_in_every_layer",
     [](Spec& s) {
       make_states(s);
       s.attention_layers = "DD", s.delta_taps = 2, s.tied_head = false;
     }},
    {"heads_with_a_state_beside_parallel_branches",
     [](Spec& s) {
       make_states(s);
       s.attention_layers = "FD", s.residual = Residual::parallel, s.biases.qkv = true;
     }},
    {"adapters_of_heads_with_a_state",
     [](Spec& s) {
       make_states(s);
       s.attention_layers = "DF";
       s.adapters =
           "delta.in.mixed in 0: rank 3, scale 0.5; delta.in.output-gate in 0: rank 2, scale 2; delta.in.beta in 0: "
           "rank 1, scale 1; delta.in.decay in 0: rank 2, scale 1; delta.out in 0: rank 2, scale 2; "
           "attention.qkv.query in 1: rank 3, scale 0.5";
     }},
    {"layer_norms_of_branches",
     [](Spec& s) { s.norm_place = NormPlace::branch, s.embedding_norm = true, s.embedding_scale = 2; }},
};

}  // namespace trireme
