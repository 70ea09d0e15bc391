// Llama, Mistral, Qwen 2 to 3.5, Gemma 1 to 3, Phi-3, SmolLM3, OLMo 2 and 3, Granite: decoders with rms norms, gated
// MLPs and rotary positions. Which fields config.json has and what absent ones mean: transformers 5.24.

#include "base/json_fields.h"
#include "checkpoint/huggingface/decoder_config.h"
#include "checkpoint/huggingface/family.h"

namespace trireme {
namespace {

constexpr auto kEnds = std::to_array<NameRule>({
    {"embed_tokens.weight", "embedding.token.weight"},
    {"norm.weight", "norm.weight"},
    {"lm_head.weight", "head.weight", FileLayout::same, true},
    {"layers.{}.self_attn.o_proj.weight", "block.{}.attention.out.weight"},
    {"layers.{}.self_attn.o_proj.bias", "block.{}.attention.out.bias"},
    {"layers.{}.self_attn.q_norm.weight", "block.{}.attention.q_norm.weight"},
    {"layers.{}.self_attn.k_norm.weight", "block.{}.attention.k_norm.weight"},
    {"layers.{}.mlp.down_proj.weight", "block.{}.mlp.out.weight"},
    {"layers.{}.mlp.down_proj.bias", "block.{}.mlp.out.bias"},
});
constexpr auto kApart = std::to_array<NameRule>({
    {"layers.{}.self_attn.q_proj.weight", "block.{}.attention.qkv.weight", FileLayout::query},
    {"layers.{}.self_attn.k_proj.weight", "block.{}.attention.qkv.weight", FileLayout::key},
    {"layers.{}.self_attn.v_proj.weight", "block.{}.attention.qkv.weight", FileLayout::value},
    {"layers.{}.self_attn.q_proj.bias", "block.{}.attention.qkv.bias", FileLayout::query},
    {"layers.{}.self_attn.k_proj.bias", "block.{}.attention.qkv.bias", FileLayout::key},
    {"layers.{}.self_attn.v_proj.bias", "block.{}.attention.qkv.bias", FileLayout::value},
    {"layers.{}.mlp.gate_proj.weight", "block.{}.mlp.in.weight", FileLayout::gate},
    {"layers.{}.mlp.up_proj.weight", "block.{}.mlp.in.weight", FileLayout::up},
    {"layers.{}.mlp.gate_proj.bias", "block.{}.mlp.in.bias", FileLayout::gate},
    {"layers.{}.mlp.up_proj.bias", "block.{}.mlp.in.bias", FileLayout::up},
});
constexpr auto kFused = std::to_array<NameRule>({
    {"layers.{}.self_attn.qkv_proj.weight", "block.{}.attention.qkv.weight", FileLayout::qkv_blocks},
    {"layers.{}.mlp.gate_up_proj.weight", "block.{}.mlp.in.weight", FileLayout::gate_up_blocks},
});
constexpr auto kNormsOfInputs = std::to_array<NameRule>({
    {"layers.{}.input_layernorm.weight", "block.{}.norm1.weight"},
    {"layers.{}.post_attention_layernorm.weight", "block.{}.norm2.weight"},
});
constexpr auto kNormsOfBranches = std::to_array<NameRule>({
    {"layers.{}.post_attention_layernorm.weight", "block.{}.branch_norm1.weight"},
    {"layers.{}.post_feedforward_layernorm.weight", "block.{}.branch_norm2.weight"},
});
constexpr auto kNormsOfBoth = std::to_array<NameRule>({
    {"layers.{}.input_layernorm.weight", "block.{}.norm1.weight"},
    {"layers.{}.post_attention_layernorm.weight", "block.{}.branch_norm1.weight"},
    {"layers.{}.pre_feedforward_layernorm.weight", "block.{}.norm2.weight"},
    {"layers.{}.post_feedforward_layernorm.weight", "block.{}.branch_norm2.weight"},
});

constexpr auto kStates = std::to_array<NameRule>({
    {"layers.{}.linear_attn.in_proj_qkv.weight", "block.{}.delta.in.weight", FileLayout::delta_mixed},
    {"layers.{}.linear_attn.in_proj_z.weight", "block.{}.delta.in.weight", FileLayout::delta_gates},
    {"layers.{}.linear_attn.in_proj_b.weight", "block.{}.delta.in.weight", FileLayout::delta_betas},
    {"layers.{}.linear_attn.in_proj_a.weight", "block.{}.delta.in.weight", FileLayout::delta_decays},
    {"layers.{}.linear_attn.conv1d.weight", "block.{}.delta.convolution.weight", FileLayout::delta_channels},
    {"layers.{}.linear_attn.A_log", "block.{}.delta.decay_log"},
    {"layers.{}.linear_attn.dt_bias", "block.{}.delta.decay_bias"},
    {"layers.{}.linear_attn.norm.weight", "block.{}.delta.norm.weight"},
    {"layers.{}.linear_attn.out_proj.weight", "block.{}.delta.out.weight"},
});

constexpr std::array kLlamaNames = joined(joined(kEnds, kApart), kNormsOfInputs);
constexpr std::array kFusedNames = joined(joined(kEnds, kFused), kNormsOfInputs);
constexpr std::array kOlmoNames = joined(joined(kEnds, kApart), kNormsOfBranches);
constexpr std::array kGemmaNames = joined(joined(kEnds, kApart), kNormsOfBoth);
constexpr std::array kHybridNames = joined(kLlamaNames, kStates);
constexpr NameRule kCopies[] = {{"lm_head.weight", "embedding.token.weight", FileLayout::same, true}};
constexpr const char* kIgnored[] = {"layers.{}.self_attn.rotary_emb.inv_freq", "rotary_emb.inv_freq"};
constexpr const char* kPrefixes[] = {"model.", "model.language_model."};

constexpr DecoderValues kLlama{.attention_bias = AttentionBias::key, .mlp_bias = true};
constexpr DecoderValues kMistral{.key_heads = 8, .windows = WindowLayers::all, .window = 4096};
constexpr DecoderValues kQwen2{.attention_bias = AttentionBias::queries, .windows = WindowLayers::last, .window = 4096};
constexpr DecoderValues kQwen3{.query_keys = QueryKeys::head,
                               .head_size = 128,
                               .attention_bias = AttentionBias::key,
                               .windows = WindowLayers::last,
                               .window = 4096};
constexpr DecoderValues kQwen35{.norm_offset = 1,
                                .query_keys = QueryKeys::head,
                                .key_heads = 4,
                                .head_size = 256,
                                .attention_bias = AttentionBias::key,
                                .partial = true,
                                .rotary_share = 0.25,
                                .attention_gate = true,
                                .states = true};
constexpr DecoderValues kGemma{.norm_offset = 1,
                               .activation = "gelu_pytorch_tanh",
                               .old_gelu = true,
                               .key_heads = 16,
                               .head_size = 256,
                               .tied = true,
                               .attention_bias = AttentionBias::key,
                               .scales_embedding = true,
                               .padding = 0};
/// What Gemma 2 and 3 share.
constexpr DecoderValues kGemma2And3{.norms = NormPlace::both,
                                    .norm_offset = 1,
                                    .activation_key = "hidden_activation",
                                    .activation = "gelu_pytorch_tanh",
                                    .key_heads = 4,
                                    .head_size = 256,
                                    .tied = true,
                                    .attention_bias = AttentionBias::key,
                                    .windows = WindowLayers::repeats,
                                    .window = 4096,
                                    .scales_embedding = true,
                                    .scales_by_scalar = true,
                                    .logits_cap_key = true,
                                    .padding = 0};
constexpr DecoderValues kGemma2 = [] {
  DecoderValues values = kGemma2And3;
  values.window_interval = 2;
  values.attention_cap_key = true;
  values.attention_cap = 50;
  values.logits_cap = 30;
  return values;
}();
constexpr DecoderValues kGemma3 = [] {
  DecoderValues values = kGemma2And3;
  values.theta = 1e6;
  values.window_theta = 1e4;
  values.positions_by_layer = true;
  values.query_keys = QueryKeys::head;
  values.window_interval = 6;
  values.interval_key = true;
  return values;
}();
constexpr DecoderValues kQwen3Vl{.theta = 5e5,
                                 .query_keys = QueryKeys::head,
                                 .key_heads = 32,
                                 .head_size = 128,
                                 .attention_bias = AttentionBias::key};
constexpr DecoderValues kPhi3{.epsilon = 1e-5,
                              .windows = WindowLayers::all,
                              .branch_dropout = true,
                              .longrope = true,
                              .padding = 32000,
                              .partial = true};
constexpr DecoderValues kSmolLm3{.theta = 2e6,
                                 .key_heads = 4,
                                 .tied = true,
                                 .attention_bias = AttentionBias::key,
                                 .mlp_bias = true,
                                 .windows = WindowLayers::unturned,
                                 .unturned_layers = true,
                                 .padding = 128004};
constexpr DecoderValues kOlmo2{.epsilon = 1e-5,
                               .norms = NormPlace::branch,
                               .query_keys = QueryKeys::projection,
                               .attention_bias = AttentionBias::key,
                               .padding = 1};
constexpr DecoderValues kOlmo3 = [] {
  DecoderValues values = kOlmo2;
  values.theta = 5e5;
  values.positions_by_layer = true;
  values.windows = WindowLayers::repeats;
  values.window = 4096;
  values.window_interval = 4;
  return values;
}();
constexpr DecoderValues kGranite{.attention_bias = AttentionBias::key, .mlp_bias = true, .multipliers = true};

/// Tensors beside those of the text model: of vision, of the prediction of further tokens.
constexpr const char* kOthers[] = {"mtp.",
                                   "model.mtp.",
                                   "model.visual.",
                                   "visual.",
                                   "vision_tower.",
                                   "model.vision_tower.",
                                   "vision_model.",
                                   "multi_modal_projector.",
                                   "model.multi_modal_projector."};
/// Of the text model in wrappers, now and before transformers 5; lm_head.weight has none, or the last one.
constexpr const char* kWrapperPrefixes[] = {"model.language_model.", "language_model.model.", "language_model."};

template <const DecoderValues& values>
Family family(const char* model_type, std::span<const Architecture> architectures, std::span<const NameRule> names) {
  return {.model_type = model_type,
          .architectures = architectures,
          .prefixes = kPrefixes,
          .names = names,
          .copies = kCopies,
          .ignored = kIgnored,
          .padding = values.padding,
          .longrope = values.longrope,
          .expresses = [](const Spec& spec) { return decoder_config_expresses(spec, values); },
          .read_config = [](const Json& config, HeadKind,
                            std::string_view where) { return read_decoder_config(config, values, where); },
          .write_config = [](const Spec& spec, Json& config) { write_decoder_config(spec, values, config); }};
}

/// A text model that knows of no other part, but whose folders may have some.
template <const DecoderValues& values>
Family text_family(const char* model_type, std::span<const Architecture> architectures,
                   std::span<const NameRule> names) {
  Family text = family<values>(model_type, architectures, names);
  text.others = kOthers;
  return text;
}

/// A model with other parts than text. What text_config may leave out is what its class has.
struct WrapperText {
  const char* model_type;
  std::span<const std::pair<const char*, int64_t>> sizes = {};
};

Json text_config(const Json& config, const WrapperText& text, std::string_view where) {
  Json own = json_member(config, "text_config", where);
  require(own.is_object(), ErrorKind::data, "{}: \"text_config\" is {}, expected an object", where, own.type_name());
  const Json type = own.value("model_type", Json(text.model_type));
  require(type == text.model_type, ErrorKind::data,
          "{}: \"model_type\" of \"text_config\" is {}, but only \"{}\" is supported in this family", where,
          dump_valid_json(type).substr(0, 80), text.model_type);
  for (const auto& [key, value] : text.sizes)
    if (!own.contains(key)) own[key] = value;
  return own;
}

template <const DecoderValues& values, const WrapperText& text>
Family wrapper_family(const char* model_type, std::span<const Architecture> architectures,
                      std::span<const NameRule> names) {
  Family wrapper = text_family<values>(model_type, architectures, names);
  wrapper.wrapper = true;
  wrapper.prefixes = kWrapperPrefixes;
  wrapper.read_config = [](const Json& config, HeadKind, std::string_view where) {
    Json own = text_config(config, text, where);
    // The wrapper's word counts for the class that is loaded.
    if (const auto tied = config.find("tie_word_embeddings"); tied != config.end() && !tied->is_null())
      own["tie_word_embeddings"] = *tied;
    else
      own["tie_word_embeddings"] = values.tied;
    return read_decoder_config(own, values, where);
  };
  return wrapper;
}

constexpr Architecture architecture(const char* name) { return {name, HeadKind::language_model}; }

constexpr Architecture kLlamaClass[] = {architecture("LlamaForCausalLM")};
constexpr Architecture kMistralClass[] = {architecture("MistralForCausalLM")};
constexpr Architecture kQwen2Class[] = {architecture("Qwen2ForCausalLM")};
constexpr Architecture kQwen3Class[] = {architecture("Qwen3ForCausalLM")};
constexpr Architecture kQwen35Class[] = {architecture("Qwen3_5ForCausalLM")};
constexpr Architecture kQwen35Wrapper[] = {architecture("Qwen3_5ForConditionalGeneration")};
constexpr Architecture kQwen3VlWrapper[] = {architecture("Qwen3VLForConditionalGeneration")};
constexpr Architecture kGemma3Wrapper[] = {architecture("Gemma3ForConditionalGeneration")};
constexpr Architecture kMistral3Wrapper[] = {architecture("Mistral3ForConditionalGeneration")};
constexpr WrapperText kQwen35Text{"qwen3_5_text"}, kQwen3VlText{"qwen3_vl_text"}, kMistral3Text{"mistral"};
// Published files leave these out.
constexpr std::pair<const char*, int64_t> kGemma3Sizes[] = {
    {"vocab_size", 262208}, {"max_position_embeddings", 131072}, {"num_hidden_layers", 26}, {"num_attention_heads", 8},
    {"hidden_size", 2304},  {"intermediate_size", 9216}};
constexpr WrapperText kGemma3Text{"gemma3_text", kGemma3Sizes};
constexpr Architecture kGemmaClass[] = {architecture("GemmaForCausalLM")};
constexpr Architecture kGemma2Class[] = {architecture("Gemma2ForCausalLM")};
constexpr Architecture kGemma3Class[] = {architecture("Gemma3ForCausalLM")};
constexpr Architecture kPhi3Class[] = {architecture("Phi3ForCausalLM")};
constexpr Architecture kSmolLm3Class[] = {architecture("SmolLM3ForCausalLM")};
constexpr Architecture kOlmo2Class[] = {architecture("Olmo2ForCausalLM")};
constexpr Architecture kOlmo3Class[] = {architecture("Olmo3ForCausalLM")};
constexpr Architecture kGraniteClass[] = {architecture("GraniteForCausalLM")};

}  // namespace

std::span<const Family> decoder_families() {
  // A model that several can describe is exported as the first of them.
  static const Family known[] = {family<kLlama>("llama", kLlamaClass, kLlamaNames),
                                 family<kQwen2>("qwen2", kQwen2Class, kLlamaNames),
                                 family<kQwen3>("qwen3", kQwen3Class, kLlamaNames),
                                 text_family<kQwen35>("qwen3_5_text", kQwen35Class, kHybridNames),
                                 family<kMistral>("mistral", kMistralClass, kLlamaNames),
                                 family<kGemma>("gemma", kGemmaClass, kLlamaNames),
                                 family<kGemma2>("gemma2", kGemma2Class, kGemmaNames),
                                 family<kGemma3>("gemma3_text", kGemma3Class, kGemmaNames),
                                 family<kPhi3>("phi3", kPhi3Class, kFusedNames),
                                 family<kSmolLm3>("smollm3", kSmolLm3Class, kLlamaNames),
                                 family<kOlmo2>("olmo2", kOlmo2Class, kOlmoNames),
                                 family<kOlmo3>("olmo3", kOlmo3Class, kOlmoNames),
                                 family<kGranite>("granite", kGraniteClass, kLlamaNames),
                                 wrapper_family<kQwen35, kQwen35Text>("qwen3_5", kQwen35Wrapper, kHybridNames),
                                 wrapper_family<kQwen3Vl, kQwen3VlText>("qwen3_vl", kQwen3VlWrapper, kLlamaNames),
                                 wrapper_family<kGemma3, kGemma3Text>("gemma3", kGemma3Wrapper, kGemmaNames),
                                 wrapper_family<kMistral, kMistral3Text>("mistral3", kMistral3Wrapper, kLlamaNames)};
  return known;
}

}  // namespace trireme
