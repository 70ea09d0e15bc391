// OPT as published by facebook and by anyone who trained OPTForCausalLM. Source: Zhang et al. 2022. The position table
// has two rows before that of position 0; the 350m model is post-norm with a narrower token matrix.

#include "base/json_fields.h"
#include "checkpoint/huggingface/family.h"
#include "checkpoint/huggingface/family_config.h"

namespace trireme {
namespace {

constexpr NameRule kNames[] = {
    {"embed_tokens.weight", "embedding.token.weight"},
    {"embed_positions.weight", "embedding.position.weight"},
    {"project_in.weight", "embedding.project.weight"},
    {"layers.{}.self_attn.q_proj.weight", "block.{}.attention.qkv.weight", FileLayout::query},
    {"layers.{}.self_attn.k_proj.weight", "block.{}.attention.qkv.weight", FileLayout::key},
    {"layers.{}.self_attn.v_proj.weight", "block.{}.attention.qkv.weight", FileLayout::value},
    {"layers.{}.self_attn.q_proj.bias", "block.{}.attention.qkv.bias", FileLayout::query},
    {"layers.{}.self_attn.k_proj.bias", "block.{}.attention.qkv.bias", FileLayout::key},
    {"layers.{}.self_attn.v_proj.bias", "block.{}.attention.qkv.bias", FileLayout::value},
    {"layers.{}.self_attn.out_proj.weight", "block.{}.attention.out.weight"},
    {"layers.{}.self_attn.out_proj.bias", "block.{}.attention.out.bias"},
    {"layers.{}.self_attn_layer_norm.weight", "block.{}.norm1.weight"},
    {"layers.{}.self_attn_layer_norm.bias", "block.{}.norm1.bias"},
    {"layers.{}.fc1.weight", "block.{}.mlp.in.weight"},
    {"layers.{}.fc1.bias", "block.{}.mlp.in.bias"},
    {"layers.{}.fc2.weight", "block.{}.mlp.out.weight"},
    {"layers.{}.fc2.bias", "block.{}.mlp.out.bias"},
    {"layers.{}.final_layer_norm.weight", "block.{}.norm2.weight"},
    {"layers.{}.final_layer_norm.bias", "block.{}.norm2.bias"},
    {"final_layer_norm.weight", "norm.weight"},
    {"final_layer_norm.bias", "norm.bias"},
    {"project_out.weight", "head.project.weight"},
    {"lm_head.weight", "head.weight", FileLayout::same, true},
};
constexpr NameRule kCopies[] = {{"lm_head.weight", "embedding.token.weight"}};
constexpr const char* kIgnored[] = {"version"};
constexpr const char* kPrefixes[] = {"model.decoder.", "decoder."};
constexpr Architecture kArchitectures[] = {{"OPTForCausalLM", HeadKind::language_model},
                                           {"OPTModel", HeadKind::language_model}};
constexpr SizeFields kSizes = {
    "vocab_size", "max_position_embeddings", "num_hidden_layers", "num_attention_heads", "hidden_size", "ffn_dim"};
constexpr int64_t kPositionOffset = 2;
constexpr float kNormEpsilon = 1e-5f;  // fixed in their code

Biases linear_biases(bool on) { return {.qkv = on, .attention_out = on, .mlp_in = on, .mlp_out = on, .norm = true}; }

bool expresses(const Spec& spec) {
  const bool pre = spec.norm_place == NormPlace::pre;
  return spec.is_plain() && spec.head == HeadKind::language_model && spec.mask == Mask::causal &&
         spec.residual == Residual::sequential && (pre || !spec.final_norm) && spec.position == Position::learned &&
         spec.position_offset == kPositionOffset && spec.token_types == 0 && !spec.embedding_norm &&
         spec.norm_epsilon == kNormEpsilon && spec.embedding_dropout == 0 && spec.attention_residual_dropout &&
         (spec.biases == linear_biases(true) || spec.biases == linear_biases(false));
}

Spec read_config(const Json& config, HeadKind, std::string_view where) {
  require_switch(config, "layer_norm_elementwise_affine", true, where);
  require(field_or<double>(config, "layerdrop", 0, where) == 0, ErrorKind::data,
          "{}: \"layerdrop\" is not 0; dropping whole layers in training is not supported, set it to 0", where);
  Spec spec;
  read_sizes(config, kSizes, spec, where);
  const auto embedding = field_or<int64_t>(config, "word_embed_proj_dim", spec.width, where);
  spec.embedding_width = embedding == spec.width ? 0 : embedding;
  spec.activation = read_activation(config, "activation_function", "relu", where);
  const bool pre = field_or<bool>(config, "do_layer_norm_before", true, where);
  spec.norm_place = pre ? NormPlace::pre : NormPlace::post;
  spec.final_norm = pre && !field_or<bool>(config, "_remove_final_layer_norm", false, where);
  spec.position_offset = kPositionOffset;
  spec.tied_head = field_or<bool>(config, "tie_word_embeddings", true, where);
  spec.biases = linear_biases(field_or<bool>(config, "enable_bias", true, where));
  spec.norm_epsilon = kNormEpsilon;
  spec.attention_dropout = rate_or(config, "attention_dropout", 0, where);
  spec.residual_dropout = rate_or(config, "dropout", 0.1, where);
  return spec;
}

void write_config(const Spec& spec, Json& config) {
  write_sizes(spec, kSizes, config);
  config["word_embed_proj_dim"] = spec.token_width();
  config["activation_function"] = activation_name(spec.activation);
  config["do_layer_norm_before"] = spec.norm_place == NormPlace::pre;
  config["_remove_final_layer_norm"] = spec.norm_place == NormPlace::pre && !spec.final_norm;
  config["enable_bias"] = spec.biases.qkv;
  config["layer_norm_elementwise_affine"] = true;
  config["attention_dropout"] = shortest_double(spec.attention_dropout);
  config["dropout"] = shortest_double(spec.residual_dropout);
  config["layerdrop"] = 0.0;
}

}  // namespace

const Family& opt_family() {
  static const Family family{.model_type = "opt",
                             .architectures = kArchitectures,
                             .prefixes = kPrefixes,
                             .names = kNames,
                             .copies = kCopies,
                             .ignored = kIgnored,
                             .positions = PositionRule::attended,
                             .padding = 1,
                             .expresses = expresses,
                             .read_config = read_config,
                             .write_config = write_config};
  return family;
}

}  // namespace trireme
