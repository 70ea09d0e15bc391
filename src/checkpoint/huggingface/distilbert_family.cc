// DistilBERT (DistilBertForMaskedLM, DistilBertForSequenceClassification). Source: Sanh et al. 2019. No token types;
// its attention's output is not dropped out.

#include "base/json_fields.h"
#include "checkpoint/huggingface/family.h"
#include "checkpoint/huggingface/family_config.h"

namespace trireme {
namespace {

constexpr NameRule kNames[] = {
    {"embeddings.word_embeddings.weight", "embedding.token.weight"},
    {"embeddings.position_embeddings.weight", "embedding.position.weight"},
    {"embeddings.LayerNorm.weight", "embedding.norm.weight"},
    {"embeddings.LayerNorm.bias", "embedding.norm.bias"},
    {"transformer.layer.{}.attention.q_lin.weight", "block.{}.attention.qkv.weight", FileLayout::query},
    {"transformer.layer.{}.attention.k_lin.weight", "block.{}.attention.qkv.weight", FileLayout::key},
    {"transformer.layer.{}.attention.v_lin.weight", "block.{}.attention.qkv.weight", FileLayout::value},
    {"transformer.layer.{}.attention.q_lin.bias", "block.{}.attention.qkv.bias", FileLayout::query},
    {"transformer.layer.{}.attention.k_lin.bias", "block.{}.attention.qkv.bias", FileLayout::key},
    {"transformer.layer.{}.attention.v_lin.bias", "block.{}.attention.qkv.bias", FileLayout::value},
    {"transformer.layer.{}.attention.out_lin.weight", "block.{}.attention.out.weight"},
    {"transformer.layer.{}.attention.out_lin.bias", "block.{}.attention.out.bias"},
    {"transformer.layer.{}.sa_layer_norm.weight", "block.{}.norm1.weight"},
    {"transformer.layer.{}.sa_layer_norm.bias", "block.{}.norm1.bias"},
    {"transformer.layer.{}.ffn.lin1.weight", "block.{}.mlp.in.weight"},
    {"transformer.layer.{}.ffn.lin1.bias", "block.{}.mlp.in.bias"},
    {"transformer.layer.{}.ffn.lin2.weight", "block.{}.mlp.out.weight"},
    {"transformer.layer.{}.ffn.lin2.bias", "block.{}.mlp.out.bias"},
    {"transformer.layer.{}.output_layer_norm.weight", "block.{}.norm2.weight"},
    {"transformer.layer.{}.output_layer_norm.bias", "block.{}.norm2.bias"},
    {"pre_classifier.weight", "head.hidden.weight", FileLayout::same, true},
    {"pre_classifier.bias", "head.hidden.bias", FileLayout::same, true},
    {"classifier.weight", "head.out.weight", FileLayout::same, true},
    {"classifier.bias", "head.out.bias", FileLayout::same, true},
    {"vocab_transform.weight", "head.transform.weight", FileLayout::same, true},
    {"vocab_transform.bias", "head.transform.bias", FileLayout::same, true},
    {"vocab_layer_norm.weight", "head.norm.weight", FileLayout::same, true},
    {"vocab_layer_norm.bias", "head.norm.bias", FileLayout::same, true},
    {"vocab_projector.weight", "head.weight", FileLayout::same, true},
    {"vocab_projector.bias", "head.bias", FileLayout::same, true},
};
constexpr NameRule kCopies[] = {{"vocab_projector.weight", "embedding.token.weight"}};
constexpr const char* kIgnored[] = {"embeddings.position_ids"};
constexpr const char* kPrefixes[] = {"distilbert."};
constexpr Architecture kArchitectures[] = {{"DistilBertForMaskedLM", HeadKind::masked_language_model},
                                           {"DistilBertModel", HeadKind::masked_language_model},
                                           {"DistilBertForSequenceClassification", HeadKind::classifier}};
constexpr SizeFields kSizes = {"vocab_size", "max_position_embeddings", "n_layers", "n_heads", "dim", "hidden_dim"};
constexpr float kNormEpsilon = 1e-12f;  // fixed in their code

bool expresses(const Spec& spec) {
  if (!is_encoder(spec) || spec.position_offset != 0 || spec.token_types != 0 || spec.attention_residual_dropout ||
      spec.embedding_dropout != spec.residual_dropout || spec.norm_epsilon != kNormEpsilon)
    return false;
  if (spec.head == HeadKind::classifier) return spec.head_activation == Activation::relu && !spec.head_input_dropout;
  return spec.head_activation == spec.activation;
}

Spec read_config(const Json& config, HeadKind head, std::string_view where) {
  Spec spec = encoder_spec(head);
  read_sizes(config, kSizes, spec, where);
  spec.activation = read_activation(config, "activation", "gelu", where);
  spec.norm_epsilon = kNormEpsilon;
  spec.embedding_dropout = spec.residual_dropout = rate_or(config, "dropout", 0.1, where);
  spec.attention_dropout = rate_or(config, "attention_dropout", 0.1, where);
  spec.attention_residual_dropout = false;
  if (head == HeadKind::classifier) {
    spec.classes = read_classes(config, where);
    spec.head_activation = Activation::relu;
    spec.head_dropout = rate_or(config, "seq_classif_dropout", 0.2, where);
    return spec;
  }
  spec.tied_head = field_or<bool>(config, "tie_word_embeddings", true, where);
  spec.head_activation = spec.activation;
  return spec;
}

void write_config(const Spec& spec, Json& config) {
  write_sizes(spec, kSizes, config);
  config["activation"] = activation_name(spec.activation);
  config["dropout"] = shortest_double(spec.residual_dropout);
  config["attention_dropout"] = shortest_double(spec.attention_dropout);
  if (spec.head != HeadKind::classifier) return;
  config["seq_classif_dropout"] = shortest_double(spec.head_dropout);
  write_classes(spec, config);
}

}  // namespace

const Family& distilbert_family() {
  static const Family family{.model_type = "distilbert",
                             .architectures = kArchitectures,
                             .prefixes = kPrefixes,
                             .names = kNames,
                             .copies = kCopies,
                             .ignored = kIgnored,
                             .padding = 0,
                             .gamma_beta = true,
                             .expresses = expresses,
                             .read_config = read_config,
                             .write_config = write_config};
  return family;
}

}  // namespace trireme
