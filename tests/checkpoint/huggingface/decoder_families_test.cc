// config.json of Llama-type decoders: both spellings, what absent keys mean, what is refused, the sizes of published
// models.

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json_text.h"
#include "checkpoint/huggingface/family.h"
#include "checkpoint/huggingface/huggingface.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"

namespace trireme {
namespace {

Json small_config(const char* model_type) {
  return {{"model_type", model_type}, {"vocab_size", 40},         {"max_position_embeddings", 64},
          {"num_hidden_layers", 4},   {"num_attention_heads", 4}, {"num_key_value_heads", 2},
          {"hidden_size", 16},        {"intermediate_size", 24},  {"head_dim", 4}};
}

Spec read(const Json& config) {
  const auto type = config["model_type"].get<std::string>();
  const Spec spec = find_family(type, "M").read_config(config, HeadKind::language_model, "M");
  spec.validate();
  return spec;
}

Spec read(const char* model_type, const Json& more) {
  Json config = small_config(model_type);
  config.update(more);
  return read(config);
}

void expect_refused(const char* model_type, const Json& more, const char* text) {
  EXPECT_ERROR(read(model_type, more), ErrorKind::data, text);
}

TEST(DecoderFamilies, BothSpellingsOfPositionsAreRead) {
  const Spec old = read("llama", {{"rope_theta", 5e5},
                                  {"rope_scaling",
                                   {{"type", "llama3"},
                                    {"factor", 8.0},
                                    {"low_freq_factor", 1.0},
                                    {"high_freq_factor", 4.0},
                                    {"original_max_position_embeddings", 32}}}});
  const Spec now = read("llama", {{"rope_parameters",
                                   {{"rope_type", "llama3"},
                                    {"rope_theta", 5e5},
                                    {"factor", 8.0},
                                    {"low_freq_factor", 1.0},
                                    {"high_freq_factor", 4.0},
                                    {"original_max_position_embeddings", 32}}}});
  EXPECT_EQ(old, now);
  EXPECT_EQ(old.rotary.kind, RotaryKind::llama3);
  EXPECT_EQ(old.rotary.original_context, 32);
  EXPECT_EQ(old.rotary_base, 5e5f);
  EXPECT_EQ(read("llama", {{"rope_theta", 7.0}, {"rope_parameters", {{"rope_theta", 9.0}}}}).rotary_base, 9);
  EXPECT_EQ(read("llama", {{"rope_scaling", nullptr}}).rotary_base, 1e4f);
  EXPECT_EQ(read("smollm3", Json::object()).rotary_base, 2e6f);
  EXPECT_EQ(read("phi3", {{"partial_rotary_factor", 0.5}}).rotary_dims, 2);
  EXPECT_EQ(read("phi3", {{"rope_parameters", {{"rope_theta", 9.0}, {"partial_rotary_factor", 0.5}}}}).rotary_dims, 2);
}

TEST(DecoderFamilies, PositionsOfLayersWithAWindowAreTheirOwn) {
  const Spec old = read("gemma3_text", {{"rope_local_base_freq", 20.0},
                                        {"rope_theta", 300.0},
                                        {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}},
                                        {"sliding_window", 5},
                                        {"sliding_window_pattern", 2}});
  const Spec now = read(
      "gemma3_text", {{"rope_parameters",
                       {{"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 300.0}}},
                        {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 20.0}}}}},
                      {"sliding_window", 5},
                      {"layer_types", {"sliding_attention", "full_attention", "sliding_attention", "full_attention"}}});
  EXPECT_EQ(old, now);
  EXPECT_EQ(old.attention_layers, "WFWF");
  EXPECT_EQ(old.window_rotary_base, 20);
  EXPECT_EQ(read("gemma3_text", Json::object()).attention_layers, "WWWW");
  EXPECT_EQ(read("gemma3_text", Json::object()).window_rotary_base, 1e4f);
  EXPECT_EQ(read("olmo3", Json::object()).attention_layers, "WWWF");
  EXPECT_EQ(read("olmo3", Json::object()).window_rotary_base, 0);
  EXPECT_EQ(read("olmo3", {{"rope_theta", 5e5}}).window_rotary_base, 0);
  EXPECT_EQ(read("olmo3", {{"rope_theta", 9.0}, {"sliding_window", nullptr}}).rotary_base, 9) << "no layer has one";
  EXPECT_EQ(read("olmo3", {{"rope_theta", 9.0}, {"rope_parameters", {{"sliding_attention", {{"rope_theta", 9.0}}}}}})
                .rotary_base,
            9);
}

TEST(DecoderFamilies, LayersWithAStateAreListedOrFollowAnInterval) {
  const auto hybrid = [](Json more) {
    more["head_dim"] = 8;
    return read("qwen3_5_text", more);
  };
  const Spec spec = hybrid(Json::object());
  EXPECT_EQ(spec.attention_layers, "DDDF");
  EXPECT_EQ(hybrid({{"full_attention_interval", 2}}).attention_layers, "DFDF");
  EXPECT_TRUE(spec.attention_gate);
  EXPECT_EQ(spec.norm_offset, 1);
  EXPECT_EQ(spec.rotary_dims, 2) << "a quarter of a head";
  EXPECT_EQ(spec.delta_key_heads, 16);
  EXPECT_EQ(spec.delta_value_heads, 32);
  EXPECT_EQ(spec.delta_key_size, 128);
  EXPECT_EQ(spec.delta_value_size, 128);
  EXPECT_EQ(spec.delta_taps, 4);
  EXPECT_EQ(hybrid({{"linear_num_value_heads", 48}, {"linear_conv_kernel_dim", 3}}).delta_value_heads, 48);
  const Json full = Json::array({"full_attention", "full_attention", "full_attention", "full_attention"});
  const Spec none = hybrid({{"layer_types", full}});
  EXPECT_TRUE(none.attention_layers.empty());
  EXPECT_FALSE(none.has_states());
  expect_refused("qwen3_5_text", {{"layer_types", {"sliding_attention"}}},
                 "M: \"layer_types\" has \"sliding_attention\"; known: \"full_attention\" and \"linear_attention\"");
  expect_refused("qwen3_5_text", {{"layer_types", {"linear_attention"}}}, "\"layer_types\" has 1 entries, expected 4");
  for (const Spec& one : {spec, none}) {
    EXPECT_EQ(family_for(one).model_type, std::string("qwen3_5_text"));
    Json config{{"model_type", "qwen3_5_text"}, {"tie_word_embeddings", one.tied_head}};
    family_for(one).write_config(one, config);
    EXPECT_EQ(read(config), one);
  }
}

TEST(DecoderFamilies, AbsentKeysMeanWhatTheirClassesMean) {
  const auto without = [](const char* type, std::initializer_list<const char*> keys) {
    Json config = small_config(type);
    for (const char* key : keys) config.erase(key);
    return config;
  };
  EXPECT_EQ(read(without("llama", {"num_key_value_heads", "head_dim"})).kv_heads(), 4);
  EXPECT_EQ(read(without("qwen3", {"head_dim"})).head_dim(), 128);
  EXPECT_EQ(read(without("gemma2", {"head_dim"})).head_dim(), 256);
  EXPECT_EQ(read(without("smollm3", {"num_key_value_heads"})).kv_heads(), 4);
  EXPECT_FALSE(read("llama", Json::object()).tied_head);
  EXPECT_TRUE(read("gemma", Json::object()).tied_head);
  EXPECT_TRUE(read("smollm3", Json::object()).tied_head);
  EXPECT_TRUE(read("qwen2", Json::object()).biases.qkv);
  EXPECT_FALSE(read("qwen2", Json::object()).biases.attention_out);
  EXPECT_EQ(read("qwen2", {{"sliding_window", 8}}).window, 0) << "only with use_sliding_window";
  EXPECT_EQ(
      read("qwen2", {{"sliding_window", 8}, {"use_sliding_window", true}, {"max_window_layers", 3}}).attention_layers,
      "FFFW");
  EXPECT_EQ(read("mistral", Json::object()).window, 4096);
  EXPECT_EQ(read("mistral", {{"sliding_window", nullptr}}).window, 0);
  EXPECT_EQ(read("phi3", Json::object()).window, 0);
  EXPECT_EQ(read("gemma2", Json::object()).attention_layers, "WFWF");
  EXPECT_EQ(read("gemma2", Json::object()).attention_cap, 50);
  EXPECT_EQ(read("gemma2", {{"attn_logit_softcapping", nullptr}}).attention_cap, 0);
  EXPECT_EQ(read("gemma3_text", Json::object()).logits_cap, 0);
  EXPECT_EQ(read("gemma2", Json::object()).attention_scale, 1.0f / 16);
  EXPECT_EQ(read("gemma2", {{"query_pre_attn_scalar", 4}}).attention_scale, 0) << "that of the head";
  EXPECT_EQ(read("gemma", {{"hidden_act", "gelu"}}).activation, Activation::gelu_tanh);
  EXPECT_EQ(read("gemma2", {{"hidden_activation", "gelu"}}).activation, Activation::gelu_erf) << "means it";
  EXPECT_EQ(read("gemma3_text", {{"attn_logit_softcapping", 50.0}}).attention_cap, 0)
      << "transformers has no use for it";
  EXPECT_EQ(read("gemma2", {{"sliding_window_pattern", 3}}).attention_layers, "WFWF") << "Gemma 3's key";
  EXPECT_EQ(
      read("smollm3", {{"sliding_window", 8},
                       {"layer_types", {"full_attention", "sliding_attention", "full_attention", "full_attention"}}})
          .attention_layers,
      "FWFf")
      << "a list needs no use_sliding_window";
  EXPECT_EQ(read("smollm3", {{"sliding_window", 8}}).window, 0);
  EXPECT_EQ(read("gemma", Json::object()).embedding_scale, 4);
  EXPECT_EQ(read("smollm3", Json::object()).attention_layers, "FFFf");
  EXPECT_EQ(read("smollm3", {{"no_rope_layers", {1, 0, 1, 1}}}).attention_layers, "FfFF");
  EXPECT_EQ(read("granite", {{"logits_scaling", 8.0}, {"attention_multiplier", 0.25}}).logits_scale, 0.125f);
  const Spec phi =
      read("phi3", {{"original_max_position_embeddings", 16},
                    {"rope_scaling", {{"type", "su"}, {"short_factor", {1.0, 1.0}}, {"long_factor", {1.0, 4.0}}}}});
  EXPECT_EQ(phi.rotary.kind, RotaryKind::longrope);
  EXPECT_EQ(phi.rotary.original_context, 16);
  EXPECT_NEAR(phi.rotary.attention_factor, std::sqrt(1 + std::log(4.0) / std::log(16.0)), 1e-6);
  const Json longrope{{"rope_type", "longrope"},
                      {"original_max_position_embeddings", 16},
                      {"short_factor", {1.0, 1.0}},
                      {"long_factor", {1.0, 4.0}}};
  EXPECT_EQ(read("phi3", {{"rope_parameters", longrope}}).rotary.original_context, 4096) << "of the class";
  EXPECT_EQ(read("llama", {{"rope_parameters", longrope}}).rotary.original_context, 16);
  const Json yarn{
      {"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 16}, {"truncate", false}};
  EXPECT_FALSE(read("qwen2", {{"rope_parameters", yarn}}).rotary.truncate);
  EXPECT_TRUE(read("olmo3", {{"rope_parameters", {{"full_attention", yarn}}}}).rotary.truncate)
      << "transformers looks beside the objects";
  EXPECT_EQ(read("llama", {{"rope_parameters", {{"rope_theta", 9.0}}},
                           {"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}}})
                .rotary_base,
            1e4f)
      << "the old object takes the place of the new one";
}

TEST(DecoderFamilies, WhatHasNoMeaningIsRefusedByKeyValueAndFile) {
  expect_refused("llama", {{"num_key_value_heads", 3}},
                 "M: \"num_key_value_heads\" is 3, which does not divide \"num_attention_heads\", 4");
  expect_refused("llama", {{"rope_scaling", {{"rope_type", "ntk"}, {"factor", 2.0}}}},
                 "M: unknown rope_type \"ntk\"; known: default, linear, dynamic, llama3, yarn, longrope");
  expect_refused("llama", {{"rope_scaling", {{"rope_type", "linear"}}}}, "M: \"factor\" is missing");
  expect_refused("llama", {{"rope_parameters", {{"full_attention", {{"rope_theta", 5.0}}}}}},
                 "M: \"rope_parameters\" has an object per kind of layer, but the layers of this family are all alike");
  expect_refused("llama", {{"rope_parameters", {{"chunked_attention", {{"rope_theta", 5.0}}}}}},
                 "M: \"rope_parameters\" has an object \"chunked_attention\", expected only values");
  expect_refused("llama", {{"num_key_value_heads", 0}},
                 "M: \"num_key_value_heads\" is 0; it must be at least 1 and below 2^31");
  expect_refused("llama", {{"head_dim", 7}}, "M: 7 of 7 values of a head are rotated (\"head_dim\" times");
  expect_refused("llama", {{"rope_theta", 0.0}}, "M: \"rope_theta\" is 0; it must be above 1");
  expect_refused("gemma3_text", {{"rope_local_base_freq", -1.0}},
                 "M: \"rope_local_base_freq\" is -1; it must be above 1");
  const auto expect_scaling_refused = [](const Json& scaling, const char* text) {
    expect_refused("llama", {{"rope_scaling", scaling}}, text);
  };
  expect_scaling_refused({{"rope_type", "linear"}, {"factor", 0.5}},
                         "M: \"factor\" of \"linear\" positions is 0.5; it must be at least 1");
  expect_scaling_refused(
      {{"rope_type", "llama3"}, {"factor", 2.0}, {"low_freq_factor", 4.0}, {"high_freq_factor", 4.0}},
      "M: \"low_freq_factor\" is 4 and \"high_freq_factor\" 4; the first must be above 0 and below the second");
  expect_scaling_refused({{"rope_type", "longrope"}, {"short_factor", {1.0}}, {"long_factor", {1.0, 1.0}}},
                         "M: \"short_factor\" has 1 entries, expected 2, one per pair of rotated values");
  expect_scaling_refused({{"rope_type", "longrope"}, {"short_factor", {1.0, 1.0}}, {"long_factor", {1.0, 0.0}}},
                         "M: \"long_factor\" has 0; factors must be above 0");
  expect_refused("llama", {{"partial_rotary_factor", 0.5}},
                 "M: \"partial_rotary_factor\" is 0.5, but only 1 is supported in this family");
  expect_refused("llama", {{"rope_parameters", 3}}, "M: \"rope_parameters\" is number, expected an object");
  expect_refused("mistral", {{"sliding_window", 0}}, "M: \"sliding_window\" is 0; it must be at least 1");
  expect_refused("mistral", {{"sliding_window", -4}}, "M: \"sliding_window\" is -4; it must be at least 1");
  expect_refused("mistral", {{"layer_types", {"full_attention"}}},
                 "M: \"layer_types\" is not supported in this family");
  expect_refused("gemma2", {{"layer_types", {"full_attention"}}},
                 "M: \"layer_types\" has 1 entries, expected 4, one per layer");
  expect_refused("gemma2", {{"layer_types", {"chunked_attention"}}},
                 "M: \"layer_types\" has \"chunked_attention\"; known: \"full_attention\" and \"sliding_attention\"");
  expect_refused("gemma2", {{"final_logit_softcapping", 0.0}},
                 "M: \"final_logit_softcapping\" is 0; it must be above 0, or null for none");
  expect_refused("gemma3_text", {{"use_bidirectional_attention", true}}, "M: \"use_bidirectional_attention\" is true");
  expect_refused("gemma3_text",
                 {{"rope_parameters", {{"sliding_attention", {{"rope_type", "linear"}, {"factor", 2}}}}}},
                 "M: positions of layers with a window are scaled");
  expect_refused("gemma3_text", {{"rope_parameters", {{"rope_theta", 9.0}}}},
                 "M: \"rope_parameters\" has \"rope_theta\", but only its objects \"full_attention\" and "
                 "\"sliding_attention\" are used in this family");
  expect_refused("olmo3", {{"rope_parameters", {{"full_attention", {{"rope_theta", 9.0}}}, {"truncate", false}}}},
                 "M: \"rope_parameters\" has \"truncate\", but only its objects");
  expect_refused(
      "olmo3", {{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}},
      "M: \"type\" of \"rope_scaling\" is \"linear\", which transformers does not read in this family; name it "
      "\"rope_type\"");
  expect_refused(
      "olmo3", {{"rope_theta", 9.0}},
      "M: \"rope_theta\" is 9, which transformers 5 takes for the layers without a window only and 4 for all; "
      "give both in \"rope_parameters\"");
  for (const auto& [type, key] : {std::pair{"llama", "rms_norm_eps"},
                                  {"llama", "hidden_act"},
                                  {"llama", "rope_theta"},
                                  {"llama", "mlp_bias"},
                                  {"llama", "attention_bias"},
                                  {"gemma", "tie_word_embeddings"},
                                  {"gemma2", "query_pre_attn_scalar"},
                                  {"gemma3_text", "sliding_window_pattern"},
                                  {"gemma3_text", "rope_local_base_freq"}})
    expect_refused(type, {{key, nullptr}}, fmt::format("M: \"{}\" is null, expected a value", key).c_str());
  EXPECT_EQ(read("gemma", {{"hidden_activation", nullptr}}).activation, Activation::gelu_tanh) << "Gemma 2's key";
  expect_refused("llama", {{"rms_norm_eps", 1e300}},
                 "M: \"rms_norm_eps\" is 1e+300, more than a number of 32 bits can be");
  expect_refused("llama", {{"rope_theta", 1e300}}, "M: \"rope_theta\" is 1e+300, more than a number");
  expect_refused("gemma2", {{"query_pre_attn_scalar", 1e300}}, "M: \"query_pre_attn_scalar\" is 1e+300, more than");
  expect_refused("llama", {{"rms_norm_eps", -1e-5}}, "M: \"rms_norm_eps\" is -1e-05; it must be above 0");
  expect_refused("smollm3", {{"no_rope_layers", {1, 0}}}, "M: \"no_rope_layers\" has 2 entries, expected 4");
  expect_refused("granite", {{"logits_scaling", 0.0}}, "M: \"logits_scaling\" is 0; it must be above 0");
  expect_refused("granite", {{"attention_multiplier", 0.0}}, "M: \"attention_multiplier\" is 0; it must be above 0");
  expect_refused("llama", {{"hidden_act", "mish"}}, "M: unknown hidden_act \"mish\"");
  EXPECT_ERROR(find_family("qwen3_next", "M"), ErrorKind::data,
               "M: model_type \"qwen3_next\" is not supported: some of its layers have linear attention");
  EXPECT_ERROR(find_family("mixtral", "M"), ErrorKind::data,
               "is not supported: it is a mixture of experts; supported:");
  EXPECT_ERROR(find_family("qwen2_vl", "M"), ErrorKind::data, "is not supported: it also takes images");
  EXPECT_ERROR(
      find_family("new_moe", "M", {{"num_experts", 8}}), ErrorKind::data,
      "M: model_type \"new_moe\" is not supported: it is a mixture of experts (\"num_experts\"); supported: gpt2");
  EXPECT_ERROR(find_family("new_vl", "M", {{"num_experts", 0}, {"vision_config", Json::object()}}), ErrorKind::data,
               "it also takes images or sound (\"vision_config\")");
  EXPECT_ERROR(find_family("new", "M", {{"vision_config", nullptr}, {"num_experts", 0}}), ErrorKind::data,
               "M: unknown model_type \"new\"; known: gpt2");
}

TEST(DecoderFamilies, ThePaddingRowIsTheOneThatTorchGivesNoGradient) {
  const auto row = [](const char* type, const Json& config) {
    return frozen_row(find_family(type, "test"), config, 40, "test");
  };
  EXPECT_EQ(row("llama", {{"pad_token_id", 5}}), 5);
  EXPECT_EQ(row("llama", Json::object()), -1);
  EXPECT_EQ(row("llama", {{"pad_token_id", nullptr}}), -1);
  EXPECT_EQ(row("llama", {{"pad_token_id", -1}}), 39);
  EXPECT_EQ(row("gemma", Json::object()), 0);
  EXPECT_EQ(row("gemma", {{"pad_token_id", nullptr}}), -1);
  EXPECT_EQ(row("olmo2", Json()), 1);
  EXPECT_EQ(row("phi3", Json::object()), -1);  // 32000 is not a row of this model
  EXPECT_EQ(row("opt", Json::object()), 1);
  for (const char* type : {"gpt2", "gpt_neox"}) EXPECT_EQ(row(type, {{"pad_token_id", 5}}), -1) << type;
}

TEST(DecoderFamilies, WhatTheyWriteIsReadAsTheSame) {
  for (const Family& family : decoder_families()) {
    Json config = small_config(family.model_type);
    config["head_dim"] = 8;  // of which a quarter may turn
    if (family.wrapper) {
      Json text = config;
      text.erase("model_type");
      config["text_config"] = text;
    }
    const Spec spec = read(config);
    EXPECT_TRUE(family.expresses(spec)) << family.model_type;
    Json written;
    family.write_config(spec, written);
    for (const char* key : {"rope_parameters", "rope_theta", "rope_scaling", "head_dim", "num_key_value_heads"})
      EXPECT_TRUE(written.contains(key)) << family.model_type << ": " << key;
    Spec other = spec;
    other.residual = Residual::parallel;
    EXPECT_FALSE(family.expresses(other)) << family.model_type;
  }
  Spec plain = read("llama", Json::object());
  EXPECT_STREQ(family_for(plain).model_type, "llama");
  plain.residual_dropout = 0.1f;
  EXPECT_STREQ(family_for(plain).model_type, "llama") << "dropout is of training";
  plain.biases.qkv = true;
  EXPECT_STREQ(family_for(plain).model_type, "qwen2");
}

TEST(DecoderFamilies, AModelStaysInItsFamilyWhereThatCanDescribeIt) {
  const Spec plain = read("mistral", {{"sliding_window", nullptr}});
  EXPECT_STREQ(family_for(plain, "mistral").model_type, "mistral");
  EXPECT_STREQ(family_for(plain, "phi3").model_type, "phi3");
  EXPECT_STREQ(family_for(plain, "olmo2").model_type, "llama") << "has its norms elsewhere";
  EXPECT_STREQ(family_for(plain, "unknown").model_type, "llama");
  // Phi-3's positions are Phi-3's, unless the file said otherwise.
  const Json scaling{{"rope_type", "longrope"},
                     {"original_max_position_embeddings", 16},
                     {"short_factor", {1.0, 1.0}},
                     {"long_factor", {1.0, 4.0}}};
  const Spec longrope = read("llama", {{"rope_scaling", scaling}});
  EXPECT_STREQ(family_for(longrope).model_type, "phi3");
  EXPECT_STREQ(family_for(longrope, "llama").model_type, "llama");
  Spec wide = longrope;
  wide.head_size = 8;
  wide.rotary.short_factors = wide.rotary.long_factors = {1, 1, 1, 1};
  wide.rotary_dims = 8;
  EXPECT_STREQ(family_for(wide, "phi3").model_type, "llama") << "transformers counts by the width";
  EXPECT_STREQ(family_for(read("gemma2", {{"rope_scaling", scaling}})).model_type, "gemma2");
}

// The parameters of published models, as their cards or files say.
TEST(DecoderFamilies, PublishedSizesHaveTheirNumberOfParameters) {
  struct Size {
    const char* type;
    int64_t layers, width, heads, kv, head_dim, inner, vocabulary;
    bool tied;
    int64_t parameters;
  };
  for (const Size& s : {
           Size{"llama", 32, 4096, 32, 32, 128, 11008, 32000, false, 6'738'415'616},  // Llama-2-7B
           {"llama", 32, 4096, 32, 8, 128, 14336, 128256, false, 8'030'261'248},      // Llama-3.1-8B
           {"llama", 16, 2048, 32, 8, 64, 8192, 128256, true, 1'235'814'400},         // Llama-3.2-1B
           {"llama", 28, 3072, 24, 8, 128, 8192, 128256, true, 3'212'749'824},        // Llama-3.2-3B
           {"llama", 22, 2048, 32, 4, 64, 5632, 32000, false, 1'100'048'384},         // TinyLlama
           {"llama", 30, 576, 9, 3, 64, 1536, 49152, true, 134'515'008},              // SmolLM2-135M
           {"llama", 24, 2048, 32, 32, 64, 8192, 49152, true, 1'711'376'384},         // SmolLM2-1.7B
           {"smollm3", 36, 2048, 16, 4, 128, 11008, 128256, true, 3'075'098'624},     // SmolLM3-3B
           {"mistral", 32, 4096, 32, 8, 128, 14336, 32768, false, 7'248'023'552},     // Mistral-7B-v0.3
           {"qwen2", 24, 896, 14, 2, 64, 4864, 151936, true, 494'032'768},            // Qwen2.5-0.5B
           {"qwen2", 28, 1536, 12, 2, 128, 8960, 151936, true, 1'543'714'304},        // Qwen2.5-1.5B
           {"qwen2", 28, 3584, 28, 4, 128, 18944, 152064, false, 7'615'616'512},      // Qwen2.5-7B
           {"qwen3", 28, 1024, 16, 8, 128, 3072, 151936, true, 596'049'920},          // Qwen3-0.6B
           {"qwen3", 28, 2048, 16, 8, 128, 6144, 151936, true, 1'720'574'976},        // Qwen3-1.7B
           {"qwen3", 36, 4096, 32, 8, 128, 12288, 151936, false, 8'190'735'360},      // Qwen3-8B
           {"gemma2", 26, 2304, 8, 4, 256, 9216, 256000, true, 2'614'341'888},        // Gemma-2-2b
           {"gemma3_text", 26, 1152, 4, 1, 256, 6912, 262144, true, 999'885'952},     // Gemma-3-1b
           {"gemma3_text", 18, 640, 4, 1, 256, 2048, 262144, true, 268'098'176},      // Gemma-3-270m
           {"olmo2", 16, 2048, 16, 16, 128, 8192, 100352, false, 1'484'916'736},      // OLMo-2-1B
           {"olmo2", 32, 4096, 32, 32, 128, 11008, 100352, false, 7'298'617'344},     // OLMo-2-7B
           {"phi3", 32, 3072, 32, 32, 96, 8192, 32064, false, 3'821'079'552},         // Phi-3-mini
           {"phi3", 32, 3072, 24, 8, 128, 8192, 200064, true, 3'836'021'760},         // Phi-4-mini
       }) {
    const Json config{
        {"model_type", s.type},          {"vocab_size", s.vocabulary},     {"max_position_embeddings", 4096},
        {"num_hidden_layers", s.layers}, {"num_attention_heads", s.heads}, {"num_key_value_heads", s.kv},
        {"hidden_size", s.width},        {"intermediate_size", s.inner},   {"head_dim", s.head_dim},
        {"tie_word_embeddings", s.tied}};
    EXPECT_EQ(ParameterTable(read(config)).total(), s.parameters) << s.type << " of width " << s.width;
  }
}

TEST(DecoderFamilies, LayoutsOfGroupsAndGatesAreInvertible) {
  constexpr int64_t kRows = 2 * 5 * 3, kColumns = 4;  // 2 groups of 3 queries, heads of 3 values
  const HeadGroups groups{2, 3};
  std::vector<float> ours(kRows * kColumns), back(ours.size());
  for (size_t i = 0; i < ours.size(); ++i) ours[i] = static_cast<float>(i);
  const std::array<int64_t, 2> shape{kRows, kColumns};
  const auto come_back = [&](std::initializer_list<FileLayout> layouts) {
    std::fill(back.begin(), back.end(), -1.0f);
    size_t taken = 0;
    for (const FileLayout layout : layouts) {
      const auto their = their_shape(layout, groups, shape);
      std::vector<float> theirs(static_cast<size_t>(their[0] * their[1]));
      taken += theirs.size();
      export_values(layout, groups, kRows, kColumns, ours, theirs);
      import_values(layout, groups, kRows, kColumns, theirs, back);
    }
    EXPECT_EQ(taken, ours.size());
    EXPECT_EQ(back, ours);
  };
  come_back({FileLayout::query, FileLayout::key, FileLayout::value});
  come_back({FileLayout::gate, FileLayout::up});
  come_back({FileLayout::qkv_blocks});
  come_back({FileLayout::gate_up_blocks});
  // Fused blocks are the parts one after the other.
  for (const auto& [fused, parts] :
       {std::pair{FileLayout::qkv_blocks, std::vector{FileLayout::query, FileLayout::key, FileLayout::value}},
        {FileLayout::gate_up_blocks, std::vector{FileLayout::gate, FileLayout::up}}}) {
    std::vector<float> all(ours.size()), joined;
    export_values(fused, groups, kRows, kColumns, ours, all);
    for (const FileLayout part : parts) {
      const auto their = their_shape(part, groups, shape);
      std::vector<float> theirs(static_cast<size_t>(their[0] * their[1]));
      export_values(part, groups, kRows, kColumns, ours, theirs);
      joined.insert(joined.end(), theirs.begin(), theirs.end());
    }
    EXPECT_EQ(joined, all);
  }
}

}  // namespace
}  // namespace trireme
