// GPT-NeoX and Pythia (GPTNeoXForCausalLM). Source: Black et al. 2022. Their query_key_value has q, k, v of each head
// side by side, as ours.

#include <cmath>
#include <utility>

#include "base/json_fields.h"
#include "checkpoint/huggingface/family.h"
#include "checkpoint/huggingface/family_config.h"

namespace trireme {
namespace {

constexpr NameRule kNames[] = {
    {"embed_in.weight", "embedding.token.weight"},
    {"layers.{}.input_layernorm.weight", "block.{}.norm1.weight"},
    {"layers.{}.input_layernorm.bias", "block.{}.norm1.bias"},
    {"layers.{}.attention.query_key_value.weight", "block.{}.attention.qkv.weight"},
    {"layers.{}.attention.query_key_value.bias", "block.{}.attention.qkv.bias"},
    {"layers.{}.attention.dense.weight", "block.{}.attention.out.weight"},
    {"layers.{}.attention.dense.bias", "block.{}.attention.out.bias"},
    {"layers.{}.post_attention_layernorm.weight", "block.{}.norm2.weight"},
    {"layers.{}.post_attention_layernorm.bias", "block.{}.norm2.bias"},
    {"layers.{}.mlp.dense_h_to_4h.weight", "block.{}.mlp.in.weight"},
    {"layers.{}.mlp.dense_h_to_4h.bias", "block.{}.mlp.in.bias"},
    {"layers.{}.mlp.dense_4h_to_h.weight", "block.{}.mlp.out.weight"},
    {"layers.{}.mlp.dense_4h_to_h.bias", "block.{}.mlp.out.bias"},
    {"final_layer_norm.weight", "norm.weight"},
    {"final_layer_norm.bias", "norm.bias"},
    {"embed_out.weight", "head.weight", FileLayout::same, true},
};
constexpr NameRule kCopies[] = {{"embed_out.weight", "embedding.token.weight"}};
// Newer versions of their library call the head as in other families, but save it by its old name.
constexpr NameRule kSynonyms[] = {{"lm_head.weight", "embed_out.weight"}};
constexpr const char* kIgnored[] = {"layers.{}.attention.bias", "layers.{}.attention.masked_bias",
                                    "layers.{}.attention.rotary_emb.inv_freq"};
constexpr const char* kPrefixes[] = {"gpt_neox."};
constexpr Architecture kArchitectures[] = {{"GPTNeoXForCausalLM", HeadKind::language_model}};
constexpr SizeFields kSizes = {"vocab_size",  "max_position_embeddings", "num_hidden_layers", "num_attention_heads",
                               "hidden_size", "intermediate_size"};

Biases attention_biases(bool on) { return {.qkv = on, .attention_out = on}; }

bool expresses(const Spec& spec) {
  return spec.is_plain() && spec.head == HeadKind::language_model && spec.mask == Mask::causal &&
         spec.norm_place == NormPlace::pre && spec.final_norm && spec.position == Position::rotary &&
         !spec.projected() && spec.token_types == 0 && !spec.embedding_norm &&
         spec.embedding_dropout == spec.residual_dropout && spec.attention_residual_dropout &&
         (spec.biases == attention_biases(true) || spec.biases == attention_biases(false));
}

/// Fraction of a head that is rotated, and the base: from their own fields, or from "rope_parameters" in newer files.
std::pair<double, double> read_rotary(const Json& config, std::string_view where) {
  std::pair rotary(field_or<double>(config, "rotary_pct", 0.25, where),
                   field_or<double>(config, "rotary_emb_base", 10000, where));
  for (const char* name : {"rope_parameters", "rope_scaling"}) {
    const auto field = config.find(name);
    if (field == config.end() || field->is_null()) continue;
    require(field->is_object(), ErrorKind::data, "{}: \"{}\" is {}, expected an object", where, name,
            field->type_name());
    require_word(*field, field->contains("type") ? "type" : "rope_type", "default", where);
    rotary.first = field_or<double>(*field, "partial_rotary_factor", rotary.first, where);
    rotary.second = field_or<double>(*field, "rope_theta", rotary.second, where);
  }
  require(rotary.first > 0 && rotary.first <= 1, ErrorKind::data,
          "{}: the rotary fraction is {}, expected above 0 and at most 1", where, rotary.first);
  return rotary;
}

Spec read_config(const Json& config, HeadKind, std::string_view where) {
  Spec spec;
  read_sizes(config, kSizes, spec, where);
  spec.activation = read_activation(config, "hidden_act", "gelu", where);
  spec.residual =
      field_or<bool>(config, "use_parallel_residual", true, where) ? Residual::parallel : Residual::sequential;
  const auto [fraction, base] = read_rotary(config, where);
  spec.position = Position::rotary;
  spec.rotary_dims = static_cast<int64_t>(fraction * static_cast<double>(spec.head_dim()));
  spec.rotary_base = static_cast<float>(base);
  spec.tied_head = field_or<bool>(config, "tie_word_embeddings", false, where);
  spec.biases = attention_biases(field_or<bool>(config, "attention_bias", true, where));
  spec.norm_epsilon = rate_or(config, "layer_norm_eps", 1e-5, where);
  spec.attention_dropout = rate_or(config, "attention_dropout", 0, where);
  spec.embedding_dropout = spec.residual_dropout = rate_or(config, "hidden_dropout", 0, where);
  return spec;
}

void write_config(const Spec& spec, Json& config) {
  // A fraction that gives these dims again when multiplied and cut.
  const double exact = static_cast<double>(spec.rotary_dims) / static_cast<double>(spec.head_dim());
  const double cut = exact * static_cast<double>(spec.head_dim());
  const double fraction = static_cast<int64_t>(cut) == spec.rotary_dims ? exact : std::nextafter(exact, 2.0);
  write_sizes(spec, kSizes, config);
  config["hidden_act"] = activation_name(spec.activation);
  config["use_parallel_residual"] = spec.residual == Residual::parallel;
  config["rotary_pct"] = fraction;
  config["rotary_emb_base"] = shortest_double(spec.rotary_base);
  config["attention_bias"] = spec.biases.qkv;
  config["layer_norm_eps"] = shortest_double(spec.norm_epsilon);
  config["attention_dropout"] = shortest_double(spec.attention_dropout);
  config["hidden_dropout"] = shortest_double(spec.residual_dropout);
}

}  // namespace

const Family& gpt_neox_family() {
  static const Family family{.model_type = "gpt_neox",
                             .architectures = kArchitectures,
                             .prefixes = kPrefixes,
                             .names = kNames,
                             .copies = kCopies,
                             .synonyms = kSynonyms,
                             .ignored = kIgnored,
                             .has_padding = false,
                             .expresses = expresses,
                             .read_config = read_config,
                             .write_config = write_config};
  return family;
}

}  // namespace trireme
