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
};

}  // namespace trireme
