// BERT (BertForMaskedLM, BertForSequenceClassification; Devlin et al. 2019) and RoBERTa (RobertaForMaskedLM,
// RobertaForSequenceClassification; Liu et al. 2019): one encoder, other heads. BERT's pooler is its classifier's first
// linear. RoBERTa's positions are indices among the tokens that are not padding; two rows of its table come before
// position 0.

#include <algorithm>
#include <array>

#include "base/json_fields.h"
#include "checkpoint/huggingface/family.h"
#include "checkpoint/huggingface/family_config.h"

namespace trireme {
namespace {

constexpr std::array kEncoderNames = std::to_array<NameRule>({
    {"embeddings.word_embeddings.weight", "embedding.token.weight"},
    {"embeddings.position_embeddings.weight", "embedding.position.weight"},
    {"embeddings.token_type_embeddings.weight", "embedding.type.weight"},
    {"embeddings.LayerNorm.weight", "embedding.norm.weight"},
    {"embeddings.LayerNorm.bias", "embedding.norm.bias"},
    {"encoder.layer.{}.attention.self.query.weight", "block.{}.attention.qkv.weight", FileLayout::query},
    {"encoder.layer.{}.attention.self.key.weight", "block.{}.attention.qkv.weight", FileLayout::key},
    {"encoder.layer.{}.attention.self.value.weight", "block.{}.attention.qkv.weight", FileLayout::value},
    {"encoder.layer.{}.attention.self.query.bias", "block.{}.attention.qkv.bias", FileLayout::query},
    {"encoder.layer.{}.attention.self.key.bias", "block.{}.attention.qkv.bias", FileLayout::key},
    {"encoder.layer.{}.attention.self.value.bias", "block.{}.attention.qkv.bias", FileLayout::value},
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
});

constexpr std::array kBertNames = joined(
    kEncoderNames, std::to_array<NameRule>({
                       {"pooler.dense.weight", "head.hidden.weight"},
                       {"pooler.dense.bias", "head.hidden.bias"},
                       {"classifier.weight", "head.out.weight", FileLayout::same, true},
                       {"classifier.bias", "head.out.bias", FileLayout::same, true},
                       {"cls.predictions.transform.dense.weight", "head.transform.weight", FileLayout::same, true},
                       {"cls.predictions.transform.dense.bias", "head.transform.bias", FileLayout::same, true},
                       {"cls.predictions.transform.LayerNorm.weight", "head.norm.weight", FileLayout::same, true},
                       {"cls.predictions.transform.LayerNorm.bias", "head.norm.bias", FileLayout::same, true},
                       {"cls.predictions.decoder.weight", "head.weight", FileLayout::same, true},
                       {"cls.predictions.bias", "head.bias", FileLayout::same, true},
                   }));
constexpr NameRule kBertCopies[] = {{"cls.predictions.decoder.weight", "embedding.token.weight"},
                                    {"cls.predictions.decoder.bias", "head.bias", FileLayout::same, true}};
// Buffers, and the next-sentence head of pretraining.
constexpr const char* kBertIgnored[] = {"embeddings.position_ids", "embeddings.token_type_ids",
                                        "cls.seq_relationship.weight", "cls.seq_relationship.bias"};
constexpr const char* kBertPrefixes[] = {"bert."};
constexpr Architecture kBertArchitectures[] = {{"BertForMaskedLM", HeadKind::masked_language_model},
                                               {"BertForPreTraining", HeadKind::masked_language_model},
                                               {"BertModel", HeadKind::masked_language_model},
                                               {"BertForSequenceClassification", HeadKind::classifier}};

constexpr std::array kRobertaNames =
    joined(kEncoderNames, std::to_array<NameRule>({
                              {"classifier.dense.weight", "head.hidden.weight", FileLayout::same, true},
                              {"classifier.dense.bias", "head.hidden.bias", FileLayout::same, true},
                              {"classifier.out_proj.weight", "head.out.weight", FileLayout::same, true},
                              {"classifier.out_proj.bias", "head.out.bias", FileLayout::same, true},
                              {"lm_head.dense.weight", "head.transform.weight", FileLayout::same, true},
                              {"lm_head.dense.bias", "head.transform.bias", FileLayout::same, true},
                              {"lm_head.layer_norm.weight", "head.norm.weight", FileLayout::same, true},
                              {"lm_head.layer_norm.bias", "head.norm.bias", FileLayout::same, true},
                              {"lm_head.decoder.weight", "head.weight", FileLayout::same, true},
                              {"lm_head.bias", "head.bias", FileLayout::same, true},
                          }));
constexpr NameRule kRobertaCopies[] = {{"lm_head.decoder.weight", "embedding.token.weight"},
                                       {"lm_head.decoder.bias", "head.bias", FileLayout::same, true}};
constexpr const char* kRobertaIgnored[] = {"embeddings.position_ids", "embeddings.token_type_ids",
                                           "pooler.dense.weight", "pooler.dense.bias"};
constexpr const char* kRobertaPrefixes[] = {"roberta."};
constexpr Architecture kRobertaArchitectures[] = {{"RobertaForMaskedLM", HeadKind::masked_language_model},
                                                  {"RobertaModel", HeadKind::masked_language_model},
                                                  {"RobertaForSequenceClassification", HeadKind::classifier}};
constexpr SizeFields kSizes = {"vocab_size",  "max_position_embeddings", "num_hidden_layers", "num_attention_heads",
                               "hidden_size", "intermediate_size"};
constexpr int64_t kRobertaOffset = 2;
constexpr int64_t kRobertaPadding = kRobertaOffset - 1;  // their positions begin after the padding token's id

bool is_bert_encoder(const Spec& spec, int64_t position_offset) {
  return is_encoder(spec) && spec.position_offset == position_offset && spec.token_types > 0 &&
         spec.attention_residual_dropout && spec.embedding_dropout == spec.residual_dropout;
}

bool bert_expresses(const Spec& spec) {
  if (!is_bert_encoder(spec, 0)) return false;
  if (spec.head == HeadKind::classifier) return spec.head_activation == Activation::tanh && !spec.head_input_dropout;
  return spec.head_activation == spec.activation;
}

bool roberta_expresses(const Spec& spec) {
  if (!is_bert_encoder(spec, kRobertaOffset)) return false;
  if (spec.head == HeadKind::classifier) return spec.head_activation == Activation::tanh && spec.head_input_dropout;
  return spec.head_activation == Activation::gelu_erf;
}

/// Everything but the position offset and what the families' heads do not share.
Spec read_bert(const Json& config, HeadKind head, std::string_view where) {
  require_word(config, "position_embedding_type", "absolute", where);
  require_switch(config, "is_decoder", false, where);
  require_switch(config, "add_cross_attention", false, where);
  Spec spec = encoder_spec(head);
  read_sizes(config, kSizes, spec, where);
  spec.token_types = size_field(config, "type_vocab_size", where);
  spec.activation = read_activation(config, "hidden_act", "gelu", where);
  spec.norm_epsilon = rate_or(config, "layer_norm_eps", 1e-12, where);
  spec.embedding_dropout = spec.residual_dropout = rate_or(config, "hidden_dropout_prob", 0.1, where);
  spec.attention_dropout = rate_or(config, "attention_probs_dropout_prob", 0.1, where);
  if (head == HeadKind::classifier) {
    spec.classes = read_classes(config, where);
    spec.head_dropout = rate_or(config, "classifier_dropout", static_cast<double>(spec.residual_dropout), where);
    return spec;
  }
  spec.tied_head = field_or<bool>(config, "tie_word_embeddings", true, where);
  spec.head_activation = spec.activation;
  return spec;
}

Spec read_roberta(const Json& config, HeadKind head, std::string_view where) {
  Spec spec = read_bert(config, head, where);
  require(field_or<int64_t>(config, "pad_token_id", kRobertaPadding, where) == kRobertaPadding, ErrorKind::data,
          "{}: \"pad_token_id\" is not {}, which would shift all positions", where, kRobertaPadding);
  spec.context -= kRobertaOffset;
  spec.position_offset = kRobertaOffset;
  if (head == HeadKind::classifier) {
    spec.head_input_dropout = true;
  } else {
    spec.head_activation = Activation::gelu_erf;
  }
  return spec;
}

void write_bert(const Spec& spec, Json& config) {
  write_sizes(spec, kSizes, config);
  config["type_vocab_size"] = spec.token_types;
  config["hidden_act"] = activation_name(spec.activation);
  config["layer_norm_eps"] = shortest_double(spec.norm_epsilon);
  config["hidden_dropout_prob"] = shortest_double(spec.residual_dropout);
  config["attention_probs_dropout_prob"] = shortest_double(spec.attention_dropout);
  if (spec.head != HeadKind::classifier) return;
  config["classifier_dropout"] = shortest_double(spec.head_dropout);
  write_classes(spec, config);
}

void write_roberta(const Spec& spec, Json& config) {
  write_bert(spec, config);
  config[kSizes.context] = spec.context + kRobertaOffset;
  config["pad_token_id"] = kRobertaPadding;
}

}  // namespace

const Family& bert_family() {
  static const Family family{.model_type = "bert",
                             .architectures = kBertArchitectures,
                             .prefixes = kBertPrefixes,
                             .names = kBertNames,
                             .copies = kBertCopies,
                             .ignored = kBertIgnored,
                             .padding = 0,
                             .gamma_beta = true,
                             .expresses = bert_expresses,
                             .read_config = read_bert,
                             .write_config = write_bert};
  return family;
}

const Family& roberta_family() {
  static const Family family{.model_type = "roberta",
                             .architectures = kRobertaArchitectures,
                             .prefixes = kRobertaPrefixes,
                             .names = kRobertaNames,
                             .copies = kRobertaCopies,
                             .ignored = kRobertaIgnored,
                             .positions = PositionRule::not_padding,
                             .padding = 1,
                             .gamma_beta = true,
                             .expresses = roberta_expresses,
                             .read_config = read_roberta,
                             .write_config = write_roberta};
  return family;
}

}  // namespace trireme
