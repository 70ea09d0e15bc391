// GPT-2 as published by openai-community and by anyone who trained GPT2LMHeadModel. Source: Radford et al. 2019; the
// matrices of the blocks are "Conv1D" modules, stored [in, out].

#include <cstdint>

#include "base/json_fields.h"
#include "checkpoint/huggingface/family.h"
#include "checkpoint/huggingface/family_config.h"

namespace trireme {
namespace {

constexpr NameRule kNames[] = {
    {"wte.weight", "embedding.token.weight"},
    {"wpe.weight", "embedding.position.weight"},
    {"h.{}.ln_1.weight", "block.{}.norm1.weight"},
    {"h.{}.ln_1.bias", "block.{}.norm1.bias"},
    {"h.{}.attn.c_attn.weight", "block.{}.attention.qkv.weight", FileLayout::qkv_blocks_transposed},
    {"h.{}.attn.c_attn.bias", "block.{}.attention.qkv.bias", FileLayout::qkv_blocks},
    {"h.{}.attn.c_proj.weight", "block.{}.attention.out.weight", FileLayout::transposed},
    {"h.{}.attn.c_proj.bias", "block.{}.attention.out.bias"},
    {"h.{}.ln_2.weight", "block.{}.norm2.weight"},
    {"h.{}.ln_2.bias", "block.{}.norm2.bias"},
    {"h.{}.mlp.c_fc.weight", "block.{}.mlp.in.weight", FileLayout::transposed},
    {"h.{}.mlp.c_fc.bias", "block.{}.mlp.in.bias"},
    {"h.{}.mlp.c_proj.weight", "block.{}.mlp.out.weight", FileLayout::transposed},
    {"h.{}.mlp.c_proj.bias", "block.{}.mlp.out.bias"},
    {"ln_f.weight", "norm.weight"},
    {"ln_f.bias", "norm.bias"},
    {"lm_head.weight", "head.weight", FileLayout::same, true},
};

// Causal masks that older versions saved.
constexpr const char* kIgnored[] = {"h.{}.attn.bias", "h.{}.attn.masked_bias"};

constexpr NameRule kCopies[] = {{"lm_head.weight", "embedding.token.weight"}};
constexpr const char* kPrefixes[] = {"transformer."};
constexpr Architecture kArchitectures[] = {{"GPT2LMHeadModel", HeadKind::language_model},
                                           {"GPT2Model", HeadKind::language_model}};

bool expresses(const Spec& spec) {
  return spec.is_plain() && spec.head == HeadKind::language_model && spec.mask == Mask::causal &&
         spec.norm_place == NormPlace::pre && spec.residual == Residual::sequential && spec.final_norm &&
         spec.position == Position::learned && spec.position_offset == 0 && !spec.projected() &&
         spec.token_types == 0 && !spec.embedding_norm && spec.attention_residual_dropout;
}

Spec read_config(const Json& config, HeadKind, std::string_view where) {
  require_switch(config, "scale_attn_weights", true, where);
  require_switch(config, "scale_attn_by_inverse_layer_idx", false, where);
  require_switch(config, "reorder_and_upcast_attn", false, where);
  require_switch(config, "add_cross_attention", false, where);
  Spec spec;
  spec.vocabulary = spec.vocabulary_rows = json_field<int64_t>(config, "vocab_size", where);
  spec.context = json_field<int64_t>(config, "n_positions", where);
  spec.layers = json_field<int64_t>(config, "n_layer", where);
  spec.heads = json_field<int64_t>(config, "n_head", where);
  spec.width = json_field<int64_t>(config, "n_embd", where);
  require(spec.width > 0 && spec.width <= INT32_MAX, ErrorKind::data, "{}: \"n_embd\" is {}", where, spec.width);
  spec.inner_width = field_or<int64_t>(config, "n_inner", 4 * spec.width, where);
  spec.activation = read_activation(config, "activation_function", "gelu_new", where);
  spec.tied_head = field_or<bool>(config, "tie_word_embeddings", true, where);
  spec.norm_epsilon = static_cast<float>(field_or<double>(config, "layer_norm_epsilon", 1e-5, where));
  spec.embedding_dropout = static_cast<float>(field_or<double>(config, "embd_pdrop", 0.1, where));
  spec.attention_dropout = static_cast<float>(field_or<double>(config, "attn_pdrop", 0.1, where));
  spec.residual_dropout = static_cast<float>(field_or<double>(config, "resid_pdrop", 0.1, where));
  return spec;
}

void write_config(const Spec& spec, Json& config) {
  config["activation_function"] = activation_name(spec.activation);
  config["vocab_size"] = spec.vocabulary;
  config["n_positions"] = config["n_ctx"] = spec.context;
  config["n_layer"] = spec.layers;
  config["n_head"] = spec.heads;
  config["n_embd"] = spec.width;
  config["n_inner"] = spec.inner_width == 4 * spec.width ? Json(nullptr) : Json(spec.inner_width);
  config["layer_norm_epsilon"] = shortest_double(spec.norm_epsilon);
  config["embd_pdrop"] = shortest_double(spec.embedding_dropout);
  config["attn_pdrop"] = shortest_double(spec.attention_dropout);
  config["resid_pdrop"] = shortest_double(spec.residual_dropout);
  config["initializer_range"] = 0.02;
  config["scale_attn_weights"] = true;
}

/// Their modules always have biases; one that is zero computes the same.
Spec exported(const Spec& spec) {
  Spec full = spec;
  full.biases = Biases{};
  return full;
}

}  // namespace

const Family& gpt2_family() {
  static const Family family{.model_type = "gpt2",
                             .architectures = kArchitectures,
                             .prefixes = kPrefixes,
                             .names = kNames,
                             .copies = kCopies,
                             .ignored = kIgnored,
                             .has_padding = false,
                             .expresses = expresses,
                             .read_config = read_config,
                             .write_config = write_config,
                             .exported = exported};
  return family;
}

}  // namespace trireme
