#include "model/model_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoint/snapshot/spec_json.h"
#include "config/document.h"
#include "model/mesh_layout.h"
#include "model/presets.h"
#include "tests/support/expect_error.h"
#include "train/start/rank_table.h"
#include "train/start/resolve.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;

LoadedConfig load(std::vector<std::string> words) {
  for (std::string& word : words) word.insert(0, "--");
  return load_config({}, words);
}
Spec spec_of(const std::vector<std::string>& words) { return spec_from_options(load(words), 1000); }
std::string shown(const std::vector<std::string>& words, int ranks = 0) {
  LoadedConfig loaded = load(words);
  resolve_model_options(loaded);
  if (ranks > 0) resolve_for_ranks(loaded, ranks);
  return to_yaml(loaded);
}

TEST(ModelOptions, SayEverythingThatASpecIs) {
  const Spec spec = spec_of({"model.residual=parallel", "model.position=rotary", "model.rotary-fraction=0.25",
                             "model.rotary-base=500", "model.norm-epsilon=1e-6", "model.activation=relu",
                             "model.tied-head=false", "model.width=128", "model.heads=4", "model.inner-width=96",
                             "model.bias=false", "model.mlp-out-bias=true", "model.norm-bias=true", "model.dropout=0.1",
                             "model.attention-dropout=0.3", "model.vocabulary-multiple=128"});
  EXPECT_EQ(spec.residual, Residual::parallel);
  EXPECT_EQ(spec.position, Position::rotary);
  EXPECT_EQ(spec.rotary_dims, 8);
  EXPECT_EQ(spec.rotary_base, 500);
  EXPECT_EQ(spec.norm_epsilon, 1e-6f);
  EXPECT_EQ(spec.activation, Activation::relu);
  EXPECT_FALSE(spec.tied_head);
  EXPECT_EQ(spec.inner_width, 96);
  EXPECT_EQ(spec.biases,
            (Biases{.qkv = false, .attention_out = false, .mlp_in = false, .mlp_out = true, .norm = true}));
  EXPECT_EQ(spec.attention_dropout, 0.3f);
  EXPECT_EQ(spec.residual_dropout, 0.1f);
  EXPECT_EQ(spec.vocabulary_rows, 1024);
  const Spec post = spec_of({"model.norm-place=post", "model.position-offset=2"});
  EXPECT_EQ(post.norm_place, NormPlace::post);
  EXPECT_FALSE(post.final_norm);
  EXPECT_EQ(post.position_offset, 2);
}

const std::vector<std::string> kDecoder = {
    "model.norm=rms", "model.bias=false",      "model.gated=true", "model.activation=silu", "model.width=96",
    "model.heads=6",  "model.position=rotary", "model.layers=5",   "model.inner-width=128", "model.tied-head=false"};
std::vector<std::string> decoder(std::vector<std::string> more) {
  more.insert(more.begin(), kDecoder.begin(), kDecoder.end());
  return more;
}

TEST(ModelOptions, SayWhatADecoderSinceLlamaIs) {
  const Spec llama = spec_of(
      decoder({"model.key-heads=2", "model.rotary-base=5e5", "model.rotary-scaling=llama3", "model.rotary-factor=8",
               "model.rotary-original-context=512", "model.rotary-low=2", "model.rotary-high=3"}));
  EXPECT_EQ(llama.kv_heads(), 2);
  EXPECT_EQ(llama.head_size, 0);
  EXPECT_TRUE(llama.gated);
  EXPECT_EQ(llama.norm, NormKind::rms);
  EXPECT_FALSE(llama.biases.norm);
  EXPECT_EQ(llama.rotary,
            (RotaryScaling{.kind = RotaryKind::llama3, .factor = 8, .original_context = 512, .low = 2, .high = 3}));
  const Spec gemma = spec_of(decoder(
      {"model.key-heads=3", "model.head-size=32", "model.norm-offset=1", "model.norm-place=both",
       "model.activation=gelu-tanh", "model.query-keys=head", "model.attention-scale=0.125", "model.attention-cap=50",
       "model.window=64", "model.attention-layers=WF", "model.window-rotary-base=1000", "model.embedding-scale=9.75",
       "model.residual-scale=0.5", "model.logits-scale=0.25", "model.logits-cap=30"}));
  EXPECT_EQ(gemma.head_dim(), 32);
  EXPECT_EQ(gemma.attention_width(), 192);
  EXPECT_EQ(gemma.norm_offset, 1);
  EXPECT_EQ(gemma.norm_place, NormPlace::both);
  EXPECT_TRUE(gemma.final_norm);
  EXPECT_EQ(gemma.query_keys, QueryKeys::head);
  EXPECT_EQ(gemma.attention_scale, 0.125f);
  EXPECT_EQ(gemma.attention_cap, 50);
  EXPECT_EQ(gemma.window, 64);
  EXPECT_EQ(gemma.attention_layers, "WFWFW");
  EXPECT_EQ(gemma.window_rotary_base, 1000);
  EXPECT_EQ(gemma.embedding_scale, 9.75f);
  EXPECT_EQ(gemma.residual_scale, 0.5f);
  EXPECT_EQ(gemma.logits_scale, 0.25f);
  EXPECT_EQ(gemma.logits_cap, 30);
  EXPECT_EQ(spec_of(decoder({"model.window=64"})).attention_layers, "WWWWW");
  EXPECT_EQ(spec_of(decoder({"model.attention-layers=FFFf"})).attention_layers, "FFFfF");
  EXPECT_EQ(spec_of(decoder({"model.attention-layers=F"})).attention_layers, "");
  EXPECT_EQ(spec_of(decoder({"model.key-heads=6", "model.head-size=16"})), spec_of(kDecoder));
  const Spec yarn = spec_of(decoder({"model.rotary-scaling=yarn", "model.rotary-factor=4",
                                     "model.rotary-original-context=256", "model.rotary-truncate=false"}));
  EXPECT_NEAR(yarn.rotary.attention_factor, 1.138629436, 1e-6);
  EXPECT_FALSE(yarn.rotary.truncate);
  EXPECT_EQ(spec_of({"model.norm=rms"}).biases, (Biases{.norm = false})) << "only norms lose theirs";
}

/// What `config show` writes is the same model.
TEST(ModelOptions, AResolvedDecoderIsTheSame) {
  for (const std::vector<std::string>& words :
       {decoder({"model.window=64", "model.attention-layers=WWF", "model.key-heads=2", "model.query-keys=projection",
                 "model.norm-place=branch", "model.logits-cap=30"}),
        decoder({"model.rotary-scaling=yarn", "model.rotary-factor=4", "model.rotary-original-context=256"}),
        {"model.preset=llama-3.2-1b"},
        {"model.preset=qwen3-0.6b"},
        {"model.preset=smollm2-135m"}}) {
    LoadedConfig loaded = load(words);
    resolve_model_options(loaded);
    EXPECT_EQ(spec_from_options(loaded, 1000), spec_of(words)) << words.back();
  }
  EXPECT_THAT(shown({"model.preset=llama-3.2-1b"}),
              AllOf(HasSubstr("  key-heads: 8  # preset llama-3.2-1b\n"),
                    HasSubstr("  rotary-scaling: \"llama3\"  # preset llama-3.2-1b\n"),
                    HasSubstr("  rotary-factor: 32  # preset llama-3.2-1b\n"),
                    HasSubstr("  norm: \"rms\"  # preset llama-3.2-1b\n")));
}

TEST(ModelOptions, ImpossibleDecodersAreRefusedByKeyAndValue) {
  const struct {
    std::vector<std::string> words;
    const char* message;
  } cases[] = {
      {decoder({"model.key-heads=4"}),
       "model.key-heads (flag --model.key-heads) is 4 and does not divide model.heads (flag --model.heads), which is "
       "6; "
       "numbers that do: 1, 2, 3, 6"},
      {decoder({"model.attention-layers=WFX"}), "is \"WFX\", expected letters F, W, f, w and D"},
      {decoder({"model.attention-layers=WF"}), "has layers with a window, but model.window (default) is 0"},
      {decoder({"model.window=8", "model.attention-layers=Ff"}), "has no layer with a window (W or w)"},
      {decoder({"model.window-rotary-base=1000"}),
       "model.window-rotary-base (flag --model.window-rotary-base) is 1000, but no layer has a window"},
      {{"model.norm-offset=1"}, "model.norm-offset (flag --model.norm-offset) is 1, but model.norm (default) is layer"},
      {{"model.norm=rms", "model.norm-bias=true"}, "model.norm (flag --model.norm) is rms, which has no bias"},
      {decoder({"model.rotary-factor=4"}),
       "model.rotary-factor (flag --model.rotary-factor) is given, but model.rotary-scaling is default"},
      {decoder({"model.rotary-scaling=linear", "model.rotary-low=2"}),
       "model.rotary-low (flag --model.rotary-low) is given, but model.rotary-scaling is linear"},
      {decoder({"model.rotary-scaling=llama3", "model.rotary-factor=4"}),
       "rotary positions of kind llama3 need the original context; it is 0"},
      {{"model.rotary-scaling=linear"},
       "model.rotary-scaling (flag --model.rotary-scaling) is given, but positions are learned"},
      {{"model.attention-layers=Ff"}, "attention layers are \"FfFfFfFfFfFf\", but positions are not rotary"},
  };
  for (const auto& [words, message] : cases) EXPECT_ERROR(spec_of(words), ErrorKind::config, message);
  EXPECT_ERROR(load({"model.rotary-scaling=ntk"}), ErrorKind::config,
               "expected one of default, linear, dynamic, llama3, yarn");
  EXPECT_ERROR(load({"model.window=-1"}), ErrorKind::config, "a whole number from 0 to 1048576");
  EXPECT_ERROR(load({"model.norm-offset=2"}), ErrorKind::config, "a whole number from 0 to 1");
}

TEST(ModelOptions, DefaultsAreGpt2s) {
  Spec expected = preset("gpt2").spec;
  expected.vocabulary = 1000;
  expected.vocabulary_rows = 1024;
  EXPECT_EQ(spec_of({}), expected);
}

std::string ranks_of(const std::vector<std::string>& words, int ranks) {
  LoadedConfig loaded = load(words);
  resolve_model_options(loaded);
  resolve_for_ranks(loaded, ranks);
  return rank_table(loaded, ranks);
}

TEST(RankTable, SaysWhereEachRankIsAndWhatItHolds) {
  const std::string text =
      ranks_of({"model.preset=neox-19m", "mesh.tensor=2", "mesh.pipeline=2", "batch.global=16"}, 8);
  EXPECT_THAT(text, HasSubstr("# 8 ranks: data 2 x tensor 2 x pipeline 2."));
  EXPECT_THAT(text,
              MatchesRegex("(.|\n)*# +0 +0 +0 +0  embedding, layers 0 to 4 \\(1/2 of each\\) +[0-9.]+ GB(.|\n)*"));
  EXPECT_THAT(text, MatchesRegex("(.|\n)*# +7 +1 +1 +1  layer 5, head \\(1/2 of each\\) +[0-9.]+ GB(.|\n)*"));
  EXPECT_EQ(std::ranges::count(text, '\n'), 10);
}

TEST(RankTable, ListsTheChunksOfAStage) {
  const std::string text = ranks_of({"model.preset=neox-19m", "mesh.pipeline=2", "mesh.chunks=2", "mesh.stages=1,2,1,2",
                                     "batch.global=16", "batch.micro=4"},
                                    2);
  EXPECT_THAT(text, HasSubstr("embedding, layer 0, layer 3 "));
  EXPECT_THAT(text, HasSubstr("layers 1 to 2, layers 4 to 5, head "));
  EXPECT_ERROR(ranks_of({"model.preset=neox-19m", "mesh.pipeline=2", "mesh.chunks=4", "batch.global=16"}, 2),
               ErrorKind::config,
               "mesh.chunks 4 of 2 pipeline stages are 8 parts, more than the model's 6 layers; 1 to 3");
}

// Of the state nothing changes, of the activations tensor ranks have their share.
TEST(RankTable, PlansSequenceParallelism) {
  const auto activations = [](const std::string& sequence) {
    const std::string text = ranks_of({"model.preset=neox-125m", "mesh.tensor=4", sequence, "batch.global=4"}, 4);
    return std::stod(text.substr(text.rfind("GB", text.rfind("GB") - 1) + 2));
  };
  const double all = activations("mesh.sequence=false"), own = activations("mesh.sequence=true");
  EXPECT_LT(own, 0.75 * all);
  EXPECT_GT(own, 0.25 * all);
}

TEST(RankTable, TakesTheLayoutsOfLargeModels) {
  struct {
    std::vector<std::string> words;
    int ranks;
  } layouts[] = {
      {{"model.preset=neox-20b", "mesh.tensor=2", "mesh.pipeline=4", "batch.global=96", "precision.dtype=bf16"}, 96},
      {{"model.preset=neox-2.7b", "mesh.tensor=2", "mesh.pipeline=2", "batch.global=32"}, 8},
      {{"model.preset=opt-175b", "mesh.tensor=8", "optim.shard=optimizer", "batch.global=124"}, 992},
  };
  for (const auto& [words, ranks] : layouts) EXPECT_THAT(ranks_of(words, ranks), HasSubstr(" GB  ")) << words[0];
  const std::string text = ranks_of(layouts[0].words, 96);
  EXPECT_EQ(std::ranges::count(text, '\n'), 2 + 4) << "a line per stage where ranks are many";
  EXPECT_THAT(text, HasSubstr("72-95"));
}

TEST(RankTable, SaysWhatIsMissingAndWhatDoesNotFit) {
  EXPECT_THAT(ranks_of({}, 2), HasSubstr("set model.vocabulary, model.preset, or a data.dir or model.init"));
  EXPECT_ERROR(ranks_of({"model.preset=neox-19m", "mesh.tensor=3", "batch.global=3"}, 3), ErrorKind::config,
               "tensor 3 does not divide 8 heads; 1, 2, 4, 8 do");
}

TEST(RankTable, RefusesWhatTrainRefusesAlsoWithoutAVocabulary) {
  const struct {
    std::vector<std::string> words;
    int ranks;
    const char* message;
  } cases[] = {
      {{"mesh.pipeline=13"}, 13, "mesh.pipeline is 13, but the model has only 12 layers"},
      {{"mesh.tensor=5"}, 5, "tensor 5 does not divide 12 heads; 1, 2, 3, 4"},
      {{"mesh.tensor=6", "model.inner-width=1000"},
       6,
       "tensor 6 does not divide 1000 columns of the MLP's inner width"},
      {{"mesh.pipeline=2", "mesh.stages=6,7"}, 2, "mesh.stages 6,7 are 2 stages of 13 layers"},
      {{"mesh.pipeline=2", "mesh.stages=12,0"}, 2, "has a stage without a layer"},
      {{"mesh.pipeline=2", "mesh.chunks=7"}, 2, "more than the model's 12 layers"},
      {{"mesh.sequence=true"}, 1, "mesh.tensor is 1"},
  };
  for (const auto& [words, ranks, message] : cases) {
    SCOPED_TRACE(words[0]);
    std::vector<std::string> all = words;
    all.emplace_back("batch.global=420");
    EXPECT_ERROR(ranks_of(all, ranks), ErrorKind::config, message);
    EXPECT_ERROR(require_mesh(load(all)), ErrorKind::config, message);
    all.emplace_back("model.vocabulary=1000");
    EXPECT_ERROR(ranks_of(all, ranks), ErrorKind::config, message);
  }
  EXPECT_ERROR(ranks_of({"mesh.pipeline=2", "mesh.chunks=2", "batch.global=12", "batch.micro=4"}, 2), ErrorKind::config,
               "3 micro-batches cannot be interleaved over 2 stages");
  EXPECT_NO_THROW(require_mesh(load({"mesh.pipeline=12", "mesh.tensor=3", "mesh.data=7"})));
  EXPECT_NO_THROW(require_mesh(load({"model.init=/not/here", "mesh.pipeline=900"})));
  EXPECT_THAT(ranks_of({"mesh.tensor=3", "batch.global=24"}, 24),
              HasSubstr("# 24 ranks: data 8 x tensor 3 x pipeline 1. Cannot show what each rank holds"));
}

// 63 ids fill 64 rows, which 3 ranks cannot share: they have 66.
TEST(RankTable, RowsOfPaddingFollowTheTensorRanks) {
  for (const int tensor : {2, 3, 6}) {
    const std::string text =
        ranks_of({"model.vocabulary=63", fmt::format("mesh.tensor={}", tensor), "batch.global=6"}, 6);
    EXPECT_THAT(text, HasSubstr(" GB  ")) << tensor;
  }
  Spec spec;
  spec.vocabulary_rows = 64;
  EXPECT_EQ(with_rows_for(spec, 3).vocabulary_rows, 66);
  EXPECT_EQ(with_rows_for(spec, 4).vocabulary_rows, 64);
  EXPECT_EQ(with_rows_for(spec, 1).vocabulary_rows, 64);
}

TEST(ModelOptions, ResizeAPreset) {
  const Spec small = spec_of({"model.preset=neox-20b", "model.layers=12"});
  Spec expected = preset("neox-20b").spec;
  expected.layers = 12;
  expected.vocabulary = 1000;
  expected.vocabulary_rows = 1024;
  EXPECT_EQ(small, expected);
  const Spec narrow = spec_of({"model.preset=neox-20b", "model.width=512", "model.heads=8"});
  EXPECT_EQ(narrow.inner_width, 2048);
  EXPECT_EQ(narrow.rotary_dims, 16) << "a quarter of 64";
  EXPECT_EQ(narrow.residual, Residual::parallel);
  EXPECT_EQ(spec_of({"model.preset=opt-125m", "model.position=rotary"}).position_offset, 0);
  EXPECT_FALSE(spec_of({"model.preset=opt-350m", "model.norm-place=post"}).final_norm);
}

TEST(ModelOptions, ImpossibleRequestsAreRefused) {
  EXPECT_ERROR(spec_of({"model.residual=parallel", "model.bias=false"}), ErrorKind::config,
               "model.residual (flag --model.residual) is parallel and the MLP has no bias (model.bias (flag "
               "--model.bias)): GPT-NeoX drops the attention's output from such a model");
  EXPECT_ERROR(spec_of({"model.preset=neox-20b", "model.mlp-out-bias=false"}), ErrorKind::config,
               "set --model.mlp-out-bias true or --model.residual sequential");
  EXPECT_ERROR(
      spec_of({"model.preset=neox-125m", "model.heads=7"}), ErrorKind::config,
      "model.heads (flag --model.heads) is 7 and does not divide model.width (default), which is 768; give both");
  EXPECT_ERROR(spec_of({"model.position=rotary", "model.rotary-fraction=0.05"}), ErrorKind::config,
               "rotary dims is 3; it must be even");
  EXPECT_ERROR(
      spec_of({"model.rotary-fraction=0.5"}), ErrorKind::config,
      "model.rotary-fraction (flag --model.rotary-fraction) is given, but positions are learned; remove it or set "
      "--model.position rotary");
  EXPECT_ERROR(spec_of({"model.norm-place=post", "model.residual=parallel"}), ErrorKind::config,
               "norms after a parallel residual are not defined");
}

TEST(ModelOptions, AreShownAsTheyComeOutWithTheirOrigin) {
  const std::string text = shown({"model.preset=neox-20b", "model.layers=12"});
  EXPECT_THAT(
      text,
      AllOf(HasSubstr("  layers: 12  # flag --model.layers\n"), HasSubstr("  width: 6144  # preset neox-20b\n"),
            HasSubstr("  inner-width: 24576  # preset neox-20b\n"), HasSubstr("  context: 2048  # preset neox-20b\n"),
            HasSubstr("  residual: \"parallel\"  # preset neox-20b\n"),
            HasSubstr("  rotary-fraction: 0.25  # preset neox-20b\n"),
            HasSubstr("  init-scheme: \"neox\"  # preset neox-20b\n")));
  EXPECT_THAT(
      text, HasSubstr("  vocabulary: 0  # 0: that of the data's tokenizer, or else that of preset neox-20b, 50432\n"));
  EXPECT_THAT(shown({"model.preset=bert-base"}), AllOf(HasSubstr("  norm-epsilon: 1e-12  # preset bert-base\n"),
                                                       HasSubstr("  norm-place: \"post\"  # preset bert-base\n")));
  EXPECT_THAT(
      shown({"model.width=64", "model.heads=4", "model.bias=false"}),
      AllOf(HasSubstr("  inner-width: 256  # 4 x model.width\n"), HasSubstr("  qkv-bias: false  # model.bias\n")));
}

TEST(ResolveForRanks, FillsInMeshAndBatch) {
  const std::string text = shown({"mesh.tensor=2", "mesh.pipeline=4", "batch.per-rank=128", "batch.micro=4"}, 96);
  EXPECT_THAT(
      text, AllOf(HasSubstr("  data: 12  # 96 ranks\n"), HasSubstr("  accumulation: 32  # 128 sequences on each of 12 "
                                                                   "data-parallel ranks\n")));
  EXPECT_THAT(text,
              HasSubstr("  global: 1536  # batch.per-rank (flag --batch.per-rank), 128 x 12 data-parallel ranks\n"));
  EXPECT_ERROR(shown({"mesh.tensor=2", "mesh.pipeline=4"}, 12), ErrorKind::config,
               "mesh rest x 2 x 4 needs a multiple of 8 processes but --ranks gives 12 ranks");
}

TEST(Runnable, ReportsAllUntrainableSettingsTogether) {
  EXPECT_NO_THROW(require_runnable(load({})));
  EXPECT_NO_THROW(require_runnable(load({"mesh.tensor=2", "mesh.pipeline=2", "optim.shard=optimizer"})));
  EXPECT_NO_THROW(require_runnable(load({"optim.shard=parameters", "optim.shard-group=host", "comm.reduce=hosts"})));
  EXPECT_ERROR(require_runnable(load({"optim.shard=parameters", "optim.shard-group=host"})), ErrorKind::config,
               "(flag --optim.shard-group) is host, which needs hierarchical sums of gradients; set "
               "--comm.reduce hosts");
  EXPECT_ERROR(require_runnable(load({"optim.shard-group=host", "comm.reduce=hosts"})), ErrorKind::config,
               "(flag --optim.shard-group) is host, but optim.shard is none; set --optim.shard to optimizer, "
               "gradients or parameters");
  EXPECT_NO_THROW(require_runnable(load({"mesh.tensor=2", "optim.shard=parameters"})));
  EXPECT_ERROR(require_runnable(load({"optim.shard=optimizer", "optim.shard-group=host", "comm.reduce=nccl"})),
               ErrorKind::config,
               "(flag --optim.shard-group) is host, which needs hierarchical sums of gradients; set ");
  EXPECT_ERROR(require_runnable(load({"comm.reduce=nccl", "run.device=cpu"})), ErrorKind::config,
               "comm.reduce (flag --comm.reduce) is nccl, which adds gradients between GPUs, and this run computes on "
               "CPUs; set --comm.reduce auto");
  try {
    require_runnable(
        load({"optim.shard=gradients", "mesh.pipeline=2", "precision.dtype=f16", "run.on-difference=heal"}));
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_THAT(
        e.what(),
        AllOf(HasSubstr("cannot train with 3 settings:\n"),
              HasSubstr("a pipeline of 2 stages has many micro-batches in flight; set --optim.shard to optimizer ("),
              HasSubstr("set --run.on-difference stop"), HasSubstr("set --precision.dtype bf16")));
  }
}

TEST(Runnable, LayoutsAreRefusedForThemselves) {
  EXPECT_NO_THROW(require_layout(load({"mesh.pipeline=2", "optim.shard=optimizer", "precision.dtype=f16"})));
  EXPECT_ERROR(require_layout(load({"mesh.pipeline=2", "optim.shard=parameters", "precision.dtype=f16"})),
               ErrorKind::config,
               "(flag --optim.shard) sums gradients among the data ranks after every micro-batch, but a pipeline of 2 "
               "stages has many micro-batches in flight; set --optim.shard to optimizer");
}

// ---- settle_model_options(): a model that a folder or a snapshot describes

std::string settled(const Spec& spec, const std::vector<std::string>& words = {"model.init=m"}) {
  LoadedConfig loaded = load(words);
  settle_model_options(loaded, spec, "m/config.json");
  return to_yaml(loaded);
}

TEST(ModelOptions, OfAKnownModelAreItsValuesWithTheirOrigin) {
  const Spec spec = spec_of({"model.layers=2", "model.width=32", "model.heads=4", "model.position=rotary",
                             "model.rotary-fraction=0.25", "model.norm=rms", "model.gated=true", "model.bias=false"});
  const std::string text = settled(spec);
  for (const char* line :
       {"  layers: 2  # m/config.json\n", "  width: 32  # m/config.json\n", "  heads: 4  # m/config.json\n",
        "  inner-width: 128  # m/config.json\n", "  position: \"rotary\"  # m/config.json\n",
        "  rotary-fraction: 0.25  # m/config.json\n", "  norm: \"rms\"  # m/config.json\n",
        "  gated: true  # m/config.json\n", "  mlp-in-bias: false  # m/config.json\n"})
    EXPECT_THAT(text, HasSubstr(line));
  EXPECT_THAT(settled(spec, {"model.init=m", "model.context=512"}),
              HasSubstr("  context: 1024  # flag --model.context"))
      << "a given option keeps its origin";
}

TEST(ModelOptions, OfAKnownModelGiveTheSameModelAgain) {
  for (const char* name : {"gpt2-124m", "opt-350m", "neox-125m", "smollm2-135m", "qwen3-0.6b", "llama-3.2-1b"}) {
    SCOPED_TRACE(name);
    LoadedConfig loaded = load({});
    Spec spec = preset(name).spec;
    set_dropout(spec, {});
    settle_model_options(loaded, spec, "m");
    EXPECT_EQ(describe_differences(spec, with_given_options(spec, loaded)), "");
    const Config again = config_from_json(to_json(loaded.config), "config");
    EXPECT_EQ(to_json(again), to_json(loaded.config)) << "a snapshot's configuration can be read";
  }
}

TEST(ModelOptions, AValueThatNoOptionHasIsNamedInTheOrigin) {
  Spec spec = spec_of({"model.position=rotary"});
  spec.rotary.kind = RotaryKind::longrope;
  EXPECT_THAT(settled(spec),
              HasSubstr("  rotary-scaling: \"default\"  # m/config.json: longrope, which no option has"));
}

TEST(ModelOptions, OfAFolderThatHasNotBeenReadAreNotShownAsFacts) {
  const std::string text = to_yaml(load({"model.init=someone/model"}));
  EXPECT_THAT(text, HasSubstr("  # layers: from model.init\n"));
  EXPECT_THAT(text, testing::Not(HasSubstr("  layers: 12")));
  EXPECT_THAT(text, HasSubstr("  dropout: 0\n"));
}

}  // namespace
}  // namespace trireme
