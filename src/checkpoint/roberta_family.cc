// RoBERTa (RobertaForMaskedLM, RobertaForSequenceClassification). Source: Liu et al. 2019. A token's position is its
// index among the tokens that are no padding; the table has two rows before that of position 0.

#include "checkpoint/family.h"
#include "checkpoint/family_config.h"
#include "checkpoint/json_fields.h"

namespace trireme {
namespace {

constexpr NameRule kNames[] = {
    {"embeddings.word_embeddings.weight", "embedding.token.weight"},
    {"embeddings.position_embeddings.weight", "embedding.position.weight"},
    {"embeddings.token_type_embeddings.weight", "embedding.type.weight"},
    {"embeddings.LayerNorm.weight", "embedding.norm.weight"},
    {"embeddings.LayerNorm.bias", "embedding.norm.bias"},
    {"encoder.layer.{}.attention.self.query.weight", "block.{}.attention.qkv.weight", Layout::query},
    {"encoder.layer.{}.attention.self.key.weight", "block.{}.attention.qkv.weight", Layout::key},
    {"encoder.layer.{}.attention.self.value.weight", "block.{}.attention.qkv.weight", Layout::value},
    {"encoder.layer.{}.attention.self.query.bias", "block.{}.attention.qkv.bias", Layout::query},
    {"encoder.layer.{}.attention.self.key.bias", "block.{}.attention.qkv.bias", Layout::key},
    {"encoder.layer.{}.attention.self.value.bias", "block.{}.attention.qkv.bias", Layout::value},
    {"encoder.layer.{}.attention.output.dense.weight", "block.{}.attention.out.weight"},
    {"encoder.layer.{}.attention.output.dense.bias", "block.{}.attention.out.bias"},
    {"encoder.layer.{}.attention.output.LayerNorm.weight", "block.{}.norm1.weight"},
    {"encoder.layer.{}.attention.output.LayerNorm.bias", "block.{}.norm1.bias"},
    {"encoder.layer.{}.intermediate.dense.weight", "block.{}.mlp.in.weight"},
    {"encoder.layer.{}.intermediate.dense.bias", "block.{}.mlp.in.bias"},
    {"encoder.layer.{}.output.dense.weight", "block.{}.mlp.out.weight"},
    {"encoder.layer.{}.output.dense.bias", "block.{}.mlp.out.bias"},
    {"encoder.layer.{}.output.LayerNorm.weight", "block.{}.norm2.weight"},
    {"encoder.layer.{}.output.LayerNorm.bias", "block.{}.norm2.bias"},
    {"classifier.dense.weight", "head.hidden.weight", Layout::same, true},
    {"classifier.dense.bias", "head.hidden.bias", Layout::same, true},
    {"classifier.out_proj.weight", "head.out.weight", Layout::same, true},
    {"classifier.out_proj.bias", "head.out.bias", Layout::same, true},
    {"lm_head.dense.weight", "head.transform.weight", Layout::same, true},
    {"lm_head.dense.bias", "head.transform.bias", Layout::same, true},
    {"lm_head.layer_norm.weight", "head.norm.weight", Layout::same, true},
    {"lm_head.layer_norm.bias", "head.norm.bias", Layout::same, true},
    {"lm_head.decoder.weight", "head.weight", Layout::same, true},
    {"lm_head.bias", "head.bias", Layout::same, true},
};
constexpr NameRule kCopies[] = {{"lm_head.decoder.weight", "embedding.token.weight"},
                                {"lm_head.decoder.bias", "head.bias"}};
constexpr const char* kIgnored[] = {"embeddings.position_ids", "embeddings.token_type_ids", "pooler.dense.weight",
                                    "pooler.dense.bias"};
constexpr const char* kPrefixes[] = {"roberta."};
constexpr Architecture kArchitectures[] = {{"RobertaForMaskedLM", HeadKind::masked_language_model},
                                           {"RobertaModel", HeadKind::masked_language_model},
                                           {"RobertaForSequenceClassification", HeadKind::classifier}};
constexpr int64_t kPositionOffset = 2;
constexpr int64_t kPadding = kPositionOffset - 1;  // their positions begin behind the padding token's id

bool expresses(const Spec& spec) {
  if (!is_encoder(spec) || spec.position_offset != kPositionOffset || spec.token_types == 0 ||
      !spec.attention_residual_dropout || spec.embedding_dropout != spec.residual_dropout)
    return false;
  if (spec.head == HeadKind::classifier) return spec.head_activation == Activation::tanh && spec.head_input_dropout;
  return spec.head_activation == Activation::gelu_erf;
}

Spec read_config(const Json& config, HeadKind head, std::string_view where) {
  require_word(config, "position_embedding_type", "absolute", where);
  require_switch(config, "is_decoder", false, where);
  require_switch(config, "add_cross_attention", false, where);
  Spec spec = encoder_spec(head);
  spec.vocabulary = spec.vocabulary_rows = size_field(config, "vocab_size", where);
  require(field_or<int64_t>(config, "pad_token_id", kPadding, where) == kPadding, ErrorKind::data,
          "{}: \"pad_token_id\" is not {}, where positions would begin elsewhere", where, kPadding);
  spec.context = size_field(config, "max_position_embeddings", where) - kPositionOffset;
  spec.position_offset = kPositionOffset;
  spec.token_types = size_field(config, "type_vocab_size", where);
  spec.layers = size_field(config, "num_hidden_layers", where);
  spec.heads = size_field(config, "num_attention_heads", where);
  spec.width = size_field(config, "hidden_size", where);
  spec.inner_width = size_field(config, "intermediate_size", where);
  spec.activation = read_activation(config, "hidden_act", "gelu", where);
  spec.norm_epsilon = rate_or(config, "layer_norm_eps", 1e-12, where);
  spec.embedding_dropout = spec.residual_dropout = rate_or(config, "hidden_dropout_prob", 0.1, where);
  spec.attention_dropout = rate_or(config, "attention_probs_dropout_prob", 0.1, where);
  if (head == HeadKind::classifier) {
    spec.classes = read_classes(config, where);
    spec.head_dropout = rate_or(config, "classifier_dropout", static_cast<double>(spec.residual_dropout), where);
    spec.head_input_dropout = true;
    return spec;
  }
  spec.tied_head = field_or<bool>(config, "tie_word_embeddings", true, where);
  spec.head_activation = Activation::gelu_erf;
  return spec;
}

void write_config(const Spec& spec, Json& config) {
  config["vocab_size"] = spec.vocabulary;
  config["max_position_embeddings"] = spec.context + kPositionOffset;
  config["type_vocab_size"] = spec.token_types;
  config["num_hidden_layers"] = spec.layers;
  config["num_attention_heads"] = spec.heads;
  config["hidden_size"] = spec.width;
  config["intermediate_size"] = spec.inner_width;
  config["hidden_act"] = activation_name(spec.activation);
  config["layer_norm_eps"] = shortest_double(spec.norm_epsilon);
  config["hidden_dropout_prob"] = shortest_double(spec.residual_dropout);
  config["attention_probs_dropout_prob"] = shortest_double(spec.attention_dropout);
  config["pad_token_id"] = kPadding;
  if (spec.head != HeadKind::classifier) return;
  config["classifier_dropout"] = shortest_double(spec.head_dropout);
  write_classes(spec, config);
}

}  // namespace

const Family& roberta_family() {
  static const Family family{.model_type = "roberta",
                             .architectures = kArchitectures,
                             .prefixes = kPrefixes,
                             .names = kNames,
                             .copies = kCopies,
                             .synonyms = {},
                             .ignored = kIgnored,
                             .positions = PositionRule::not_padding,
                             .padding = 1,
                             .gamma_beta = true,
                             .expresses = expresses,
                             .read_config = read_config,
                             .write_config = write_config,
                             .exported = [](const Spec& spec) { return spec; }};
  return family;
}

}  // namespace trireme
