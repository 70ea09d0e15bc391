#include "model/presets.h"

#include <fmt/ranges.h>

#include "base/error.h"

namespace trireme {
namespace {

constexpr int64_t kRowMultiple = 64;  // full vectors and GEMM tiles in the head: 50257 -> 50304

Spec sized(int64_t layers, int64_t heads, int64_t width, int64_t vocabulary, int64_t context) {
  Spec spec;
  spec.layers = layers;
  spec.heads = heads;
  spec.width = width;
  spec.inner_width = 4 * width;
  spec.vocabulary = vocabulary;
  spec.vocabulary_rows = (vocabulary + kRowMultiple - 1) / kRowMultiple * kRowMultiple;
  spec.context = context;
  return spec;
}

struct Size {
  const char* name;
  int64_t layers, heads, width;
  const char* alias = "";
};

// Radford et al. 2019, table 2, with the parameter counts of the published files.
constexpr Size kGpt2[] = {{"gpt2-124m", 12, 12, 768, "gpt2"},
                          {"gpt2-355m", 24, 16, 1024, "gpt2-medium"},
                          {"gpt2-774m", 36, 20, 1280, "gpt2-large"},
                          {"gpt2-1558m", 48, 25, 1600, "gpt2-xl"}};
constexpr int64_t kGpt2Vocabulary = 50257, kGpt2Context = 1024;

// Zhang et al. 2022, table 1, and the small ones of metaseq's baselines.
constexpr Size kOpt[] = {{"opt-8m", 4, 2, 128},      {"opt-125m", 12, 12, 768},  {"opt-350m", 24, 16, 1024},
                         {"opt-760m", 24, 16, 1536}, {"opt-1.3b", 24, 32, 2048}, {"opt-2.7b", 32, 32, 2560},
                         {"opt-6.7b", 32, 32, 4096}, {"opt-13b", 40, 40, 5120},  {"opt-30b", 48, 56, 7168},
                         {"opt-66b", 64, 72, 9216},  {"opt-175b", 96, 96, 12288}};
constexpr int64_t kOptVocabulary = 50272, kOptContext = 2048, kOptPositionOffset = 2;

struct NeoxSize : Size {
  bool parallel = false;  ///< residual, with a quarter of each head turned
  Activation activation = Activation::gelu_erf;
  int64_t vocabulary = 50304;
};
// The configurations that GPT-NeoX ships; 20b as published (Black et al. 2022).
constexpr NeoxSize kNeox[] = {{{"neox-19m", 6, 8, 512}},
                              {{"neox-49m", 10, 10, 640}, true},
                              {{"neox-125m", 12, 12, 768}},
                              {{"neox-350m", 24, 16, 1024}},
                              {{"neox-760m", 24, 16, 1536}},
                              {{"neox-800m", 16, 8, 2048}},
                              {{"neox-1.3b", 24, 16, 2048, "neox-1-3b"}},
                              {{"neox-2.7b", 32, 32, 2560, "neox-2-7b"}},
                              {{"neox-6.7b", 32, 32, 4096, "neox-6-7b"}},
                              {{"neox-13b", 40, 40, 5120}},
                              {{"neox-20b", 44, 64, 6144}, true, Activation::gelu_tanh, 50432},
                              {{"neox-175b", 96, 96, 12288}}};
constexpr int64_t kNeoxContext = 2048;

// Devlin et al. 2019; the smaller ones: Turc et al. 2019; Sanh et al. 2019.
struct EncoderSize : Size {
  int64_t token_types = 2;
  bool attention_residual_dropout = true;
};
constexpr EncoderSize kEncoders[] = {{{"bert-tiny", 2, 2, 128}},
                                     {{"bert-mini", 4, 4, 256}},
                                     {{"bert-small", 4, 8, 512}},
                                     {{"bert-medium", 8, 8, 512}},
                                     {{"bert-base", 12, 12, 768}},
                                     {{"bert-large", 24, 16, 1024}},
                                     {{"distilbert-tiny", 2, 2, 128}, 0, false},
                                     {{"distilbert-base", 6, 12, 768}, 0, false}};
// Published config.json files: SmolLM2 (Allal et al. 2025), Qwen 3 (Yang et al. 2025), Llama 3.2 (Meta 2024).
struct DecoderSize : Size {
  int64_t key_heads, head_size, inner_width, vocabulary, context;
  float rotary_base, norm_epsilon;
  QueryKeys query_keys = QueryKeys::plain;
  RotaryScaling rotary = {};
};
const DecoderSize kDecoders[] = {
    {{"smollm2-135m", 30, 9, 576}, 3, 64, 1536, 49152, 8192, 1e5f, 1e-5f},
    {{"smollm2-360m", 32, 15, 960}, 5, 64, 2560, 49152, 8192, 1e5f, 1e-5f},
    {{"qwen3-0.6b", 28, 16, 1024}, 8, 128, 3072, 151936, 40960, 1e6f, 1e-6f, QueryKeys::head},
    {{"llama-3.2-1b", 16, 32, 2048},
     8,
     64,
     8192,
     128256,
     131072,
     5e5f,
     1e-5f,
     QueryKeys::plain,
     {.kind = RotaryKind::llama3, .factor = 32, .original_context = 8192}}};
// Published config.json files of Qwen 3.5 (Qwen Team 2026): three layers with a state, then one with gated attention.
struct HybridSize : Size {
  int64_t key_heads, inner_width, value_heads;
  bool tied;
};
constexpr HybridSize kHybrids[] = {{{"qwen3.5-0.8b", 24, 8, 1024}, 2, 3584, 16, true},
                                   {{"qwen3.5-2b", 24, 8, 2048}, 2, 6144, 16, true},
                                   {{"qwen3.5-4b", 32, 16, 2560}, 4, 9216, 32, true},
                                   {{"qwen3.5-9b", 32, 16, 4096}, 4, 12288, 32, false},
                                   {{"qwen3.5-27b", 64, 24, 5120}, 4, 17408, 48, false}};
constexpr int64_t kHybridVocabulary = 248320, kHybridContext = 262144;
constexpr int64_t kEncoderVocabulary = 30522, kEncoderContext = 512;  // uncased; a run takes its data's

bool called(const Size& size, const std::string& name) {
  return name == size.name || (*size.alias && name == size.alias);
}

Spec opt(const Size& size) {
  Spec spec = sized(size.layers, size.heads, size.width, kOptVocabulary, kOptContext);
  spec.activation = Activation::relu;
  spec.position_offset = kOptPositionOffset;
  return spec;
}

Spec neox(const NeoxSize& size) {
  Spec spec = sized(size.layers, size.heads, size.width, size.vocabulary, kNeoxContext);
  spec.activation = size.activation;
  spec.residual = size.parallel ? Residual::parallel : Residual::sequential;
  spec.position = Position::rotary;
  spec.rotary_dims = size.parallel ? spec.head_dim() / 4 : spec.head_dim();
  spec.tied_head = false;
  return spec;
}

Spec decoder(const DecoderSize& size) {
  Spec spec = sized(size.layers, size.heads, size.width, size.vocabulary, size.context);
  spec.key_heads = size.key_heads;
  if (size.head_size * size.heads != size.width) spec.head_size = size.head_size;
  spec.inner_width = size.inner_width;
  spec.activation = Activation::silu;
  spec.gated = true;
  spec.norm = NormKind::rms;
  spec.norm_epsilon = size.norm_epsilon;
  spec.biases = {.qkv = false, .attention_out = false, .mlp_in = false, .mlp_out = false, .norm = false};
  spec.query_keys = size.query_keys;
  spec.position = Position::rotary;
  spec.rotary_dims = size.head_size;
  spec.rotary_base = size.rotary_base;
  spec.rotary = size.rotary;
  return spec;
}

Spec hybrid(const HybridSize& size) {
  Spec spec = decoder(
      {size, size.key_heads, 256, size.inner_width, kHybridVocabulary, kHybridContext, 1e7f, 1e-6f, QueryKeys::head});
  spec.tied_head = size.tied;
  spec.norm_offset = 1;
  spec.rotary_dims = 64;
  spec.attention_gate = true;
  for (int64_t layer = 0; layer < spec.layers; ++layer) spec.attention_layers += layer % 4 == 3 ? 'F' : 'D';
  spec.delta_key_heads = 16;
  spec.delta_value_heads = size.value_heads;
  spec.delta_key_size = spec.delta_value_size = 128;
  spec.delta_taps = 4;
  return spec;
}

Spec encoder(const EncoderSize& size) {
  Spec spec = sized(size.layers, size.heads, size.width, kEncoderVocabulary, kEncoderContext);
  spec.activation = spec.head_activation = Activation::gelu_erf;
  spec.mask = Mask::full;
  spec.norm_place = NormPlace::post;
  spec.final_norm = false;
  spec.embedding_norm = true;
  spec.norm_epsilon = 1e-12f;
  spec.token_types = size.token_types;
  spec.attention_residual_dropout = size.attention_residual_dropout;
  spec.head = HeadKind::masked_language_model;
  return spec;
}

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Size& size : kGpt2) names.emplace_back(size.name);
  for (const Size& size : kOpt) names.emplace_back(size.name);
  for (const Size& size : kNeox) names.emplace_back(size.name);
  for (const Size& size : kEncoders) names.emplace_back(size.name);
  for (const Size& size : kDecoders) names.emplace_back(size.name);
  for (const Size& size : kHybrids) names.emplace_back(size.name);
  return names;
}

Preset preset(const std::string& name) {
  for (const Size& size : kGpt2) {
    if (called(size, name))
      return {sized(size.layers, size.heads, size.width, kGpt2Vocabulary, kGpt2Context), InitScheme::gpt2};
  }
  for (const Size& size : kOpt) {
    if (called(size, name)) return {opt(size), InitScheme::opt};
  }
  for (const NeoxSize& size : kNeox) {
    if (called(size, name)) return {neox(size), InitScheme::neox};
  }
  for (const EncoderSize& size : kEncoders) {
    if (called(size, name)) return {encoder(size), InitScheme::bert};
  }
  for (const DecoderSize& size : kDecoders) {  // 0.02 for all matrices, transformers' initializer_range
    if (called(size, name)) return {decoder(size), InitScheme::bert};
  }
  for (const HybridSize& size : kHybrids) {
    if (called(size, name)) return {hybrid(size), InitScheme::bert};
  }
  fail(ErrorKind::config, "unknown model preset \"{}\"; known: {}", name, fmt::join(preset_names(), ", "));
}

}  // namespace trireme
