#include "model/presets.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "tests/support/expect_error.h"

namespace trireme {
namespace {

int64_t parameters(const char* name) { return ParameterTable(preset(name).spec).total(); }

// Published counts: in millions or billions where no exact one is.
TEST(Presets, HaveThePublishedParameterCounts) {
  EXPECT_EQ(parameters("gpt2"), 124'439'808);
  EXPECT_EQ(parameters("gpt2-medium"), 354'823'168);
  EXPECT_EQ(parameters("gpt2-large"), 774'030'080);
  EXPECT_EQ(parameters("gpt2-xl"), 1'557'611'200);
  const std::pair<const char*, double> rounded[] = {
      {"opt-125m", 125.2e6}, {"opt-350m", 355.9e6}, {"opt-760m", 760.3e6},  {"opt-1.3b", 1.316e9},
      {"opt-2.7b", 2.652e9}, {"opt-6.7b", 6.658e9}, {"opt-13b", 12.85e9},   {"opt-30b", 29.97e9},
      {"opt-66b", 65.72e9},  {"opt-175b", 174.6e9}, {"neox-125m", 162.3e6}, {"neox-2.7b", 2.775e9}};
  for (const auto& [name, count] : rounded)
    EXPECT_NEAR(static_cast<double>(parameters(name)), count, count * 5e-4) << name;
  EXPECT_EQ(parameters("neox-20b"), 20'554'567'680);
  // transformers' BertForMaskedLM and DistilBertForMaskedLM of the uncased vocabulary.
  EXPECT_EQ(parameters("bert-base"), 109'514'298);
  EXPECT_EQ(parameters("bert-large"), 335'174'458);
  EXPECT_EQ(parameters("distilbert-base"), 66'985'530);
  EXPECT_EQ(parameters("smollm2-135m"), 134'515'008);
  EXPECT_EQ(parameters("smollm2-360m"), 361'821'120);
  EXPECT_EQ(parameters("qwen3-0.6b"), 596'049'920);
  EXPECT_EQ(parameters("llama-3.2-1b"), 1'235'814'400);
  // Those of transformers' text classes.
  EXPECT_EQ(parameters("qwen3.5-0.8b"), 752'393'024);
  EXPECT_EQ(parameters("qwen3.5-2b"), 1'881'825'088);
  EXPECT_EQ(parameters("qwen3.5-4b"), 4'205'751'296);
  EXPECT_EQ(parameters("qwen3.5-9b"), 8'953'803'264);
  EXPECT_EQ(parameters("qwen3.5-27b"), 26'895'998'464);
}

TEST(Presets, DecodersHaveGroupsGatesAndRmsNorms) {
  for (const char* name : {"smollm2-135m", "smollm2-360m", "qwen3-0.6b", "llama-3.2-1b"}) {
    const Spec spec = preset(name).spec;
    EXPECT_EQ(preset(name).init, InitScheme::bert) << name;
    EXPECT_EQ(spec.norm, NormKind::rms) << name;
    EXPECT_TRUE(spec.gated && spec.tied_head) << name;
    EXPECT_EQ(spec.rotary_dims, spec.head_dim()) << name;
    EXPECT_GT(spec.group(), 1) << name;
  }
  const Spec qwen = preset("qwen3-0.6b").spec, llama = preset("llama-3.2-1b").spec;
  EXPECT_EQ(qwen.query_keys, QueryKeys::head);
  EXPECT_EQ(qwen.attention_width(), 2048);
  EXPECT_EQ(qwen.rotary_base, 1e6f);
  EXPECT_EQ(llama.rotary.kind, RotaryKind::llama3);
  EXPECT_EQ(llama.rotary.factor, 32);
}

/// 6 (L (h (nq + 2 nkv) d + nq d h + 3 h I) + V h) + 6 L nq d T.
TEST(Presets, DecodersNeedTheFlopsOfTheirSizes) {
  const struct {
    const char* name;
    double l, h, nq, nkv, d, i, v;
  } sizes[] = {{"smollm2-135m", 30, 576, 9, 3, 64, 1536, 49152},
               {"qwen3-0.6b", 28, 1024, 16, 8, 128, 3072, 151936},
               {"llama-3.2-1b", 16, 2048, 32, 8, 64, 8192, 128256}};
  for (const auto& s : sizes) {
    const double products = s.l * (s.h * (s.nq + 2 * s.nkv) * s.d + s.nq * s.d * s.h + 3 * s.h * s.i) + s.v * s.h;
    EXPECT_EQ(train_flops_per_token(preset(s.name).spec, 1024), 6 * products + 6 * s.l * s.nq * s.d * 1024) << s.name;
  }
}

TEST(Presets, AreWhatTheirFamiliesAre) {
  const Spec opt = preset("opt-125m").spec;
  EXPECT_EQ(opt.activation, Activation::relu);
  EXPECT_EQ(opt.position_offset, 2);
  EXPECT_EQ(opt.context, 2048);
  EXPECT_TRUE(opt.tied_head);
  const Spec sequential = preset("neox-2-7b").spec, parallel = preset("neox-20b").spec;
  EXPECT_EQ(sequential.residual, Residual::sequential);
  EXPECT_EQ(sequential.rotary_dims, 80);
  EXPECT_EQ(sequential.activation, Activation::gelu_erf);
  EXPECT_EQ(parallel.residual, Residual::parallel);
  EXPECT_EQ(parallel.rotary_dims, 24);
  EXPECT_EQ(parallel.activation, Activation::gelu_tanh);
  EXPECT_FALSE(parallel.tied_head);
}

TEST(Presets, EncodersAreWhatTheirFamiliesAre) {
  for (const char* name : {"bert-tiny", "bert-base", "distilbert-base"}) {
    const Preset p = preset(name);
    EXPECT_EQ(p.init, InitScheme::bert) << name;
    EXPECT_EQ(p.spec.mask, Mask::full) << name;
    EXPECT_EQ(p.spec.head, HeadKind::masked_language_model) << name;
    const bool distilled = std::string(name).starts_with("distil");
    EXPECT_EQ(p.spec.token_types, distilled ? 0 : 2) << name;
    EXPECT_EQ(p.spec.attention_residual_dropout, !distilled) << name;
  }
}

TEST(Presets, EveryNameIsAValidModelWithFullTiles) {
  for (const std::string& name : preset_names()) {
    const Spec spec = preset(name).spec;
    EXPECT_NO_THROW(spec.validate()) << name;
    EXPECT_EQ(spec.vocabulary_rows % 64, 0) << name;
  }
  EXPECT_EQ(preset("neox-1-3b").spec, preset("neox-1.3b").spec);
  EXPECT_ERROR(preset("opt-1b"), ErrorKind::config, "unknown model preset \"opt-1b\"; known: gpt2-124m, gpt2-355m");
}

TEST(Presets, StartAsTheirAuthorsStartedThem) {
  const auto std_of = [](const char* name, const char* parameter) {
    const Preset p = preset(name);
    return static_cast<double>(ParameterTable(p.spec, p.init).find(parameter).init_std);
  };
  const char *in = "block.3.attention.qkv.weight", *out = "block.3.mlp.out.weight";
  EXPECT_NEAR(std_of("gpt2", in), 0.02, 1e-8);
  EXPECT_NEAR(std_of("gpt2", out), 0.02 / std::sqrt(24), 1e-8);
  EXPECT_NEAR(std_of("opt-125m", in), 0.006, 1e-8);
  EXPECT_NEAR(std_of("opt-125m", "embedding.position.weight"), 0.006, 1e-8);
  EXPECT_NEAR(std_of("opt-125m", out), 0.006 / std::sqrt(24), 1e-8);
  EXPECT_NEAR(std_of("neox-125m", in), std::sqrt(2 / (5 * 768.0)), 1e-8);
  EXPECT_NEAR(std_of("neox-125m", "head.weight"), std::sqrt(2 / (5 * 768.0)), 1e-8);
  EXPECT_NEAR(std_of("neox-125m", "block.3.attention.out.weight"), 2 / (12 * std::sqrt(768.0)), 1e-8);
  const ParameterTable flat(preset("gpt2").spec, InitScheme::bert);
  EXPECT_NEAR(static_cast<double>(flat.find(out).init_std), 0.02, 1e-8);
}

}  // namespace
}  // namespace trireme
