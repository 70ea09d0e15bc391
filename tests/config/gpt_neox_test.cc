#include "config/gpt_neox.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "config/document.h"
#include "config/load.h"
#include "config/validate.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_data.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kFile = R"(# as NeoX writes its files
{
  "pipe_parallel_size": 1,
  "model-parallel-size": 2,
  "num_layers": 4, "hidden_size": 64, "num_attention_heads": 4,
  "seq_length": 32, "max_position_embeddings": 48,
  "pos_emb": "rotary", "rotary_pct": 0.5, "no_weight_tying": True, "gpt_j_residual": true,
  "bias_gelu_fusion": true,
  "init_method": "small_init", "output_layer_init_method": "wang_init",
  "optimizer": {"type": "Adam", "params": {"lr": 0.001, "betas": [0.9, 0.95], "eps": 1.0e-8,}},
  "min_lr": 0.0001,
  "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 3,
  "gradient_clipping": 1.0,
  "train_iters": 200, "lr_decay_iters": 100, "lr_decay_style": "cosine", "warmup": 0.025,
  "tensorboard_dir": None,
  "partition_activations": true, "hostfile": "/mock_path",
}
)";

class GptNeox : public testing::Test {
 protected:
  GptNeox() { write_text(file_, kFile); }
  LoadedConfig load(const std::vector<std::string>& flags = {}) const { return load_config({file_}, flags); }
  /// The file with a second one beside it.
  LoadedConfig load_with(const std::string& text, const std::vector<std::string>& flags = {},
                         const char* name = "more.yml") const {
    write_text(folder_ / name, text);
    return load_config({file_, folder_ / name}, flags);
  }

  TemporaryFolder folder_;
  std::string file_ = folder_ / "a.yml";
};

TEST_F(GptNeox, IsRecognisedAndTranslated) {
  const LoadedConfig loaded = load();
  const Config& config = loaded.config;
  EXPECT_EQ(loaded.dialect, "gpt-neox");
  EXPECT_EQ(config.model.layers, 4);
  EXPECT_EQ(config.model.width, 64);
  EXPECT_EQ(config.model.heads, 4);
  EXPECT_EQ(config.model.context, 48);
  EXPECT_EQ(config.batch.sequence, 32);
  EXPECT_EQ(config.model.position, Position::rotary);
  EXPECT_EQ(config.model.rotary_fraction, 0.5);
  EXPECT_FALSE(config.model.tied_head);
  EXPECT_EQ(config.model.residual, Residual::parallel);
  EXPECT_EQ(config.model.activation, Activation::gelu_tanh);
  EXPECT_EQ(config.model.init_scheme, InitScheme::neox);
  EXPECT_EQ(config.model.vocabulary_multiple, 256) << "128 x model_parallel_size";
  EXPECT_EQ(config.mesh.tensor, 2);
  EXPECT_EQ(config.mesh.pipeline, 1);
  EXPECT_EQ(config.batch.per_rank, 12);
  EXPECT_EQ(config.batch.micro, 4);
  EXPECT_EQ(config.optim.learning_rate, 1e-3);
  EXPECT_EQ(config.optim.beta2, 0.95);
  EXPECT_EQ(config.optim.weight_decay, 0.1) << "NeoX's default";
  EXPECT_EQ(config.optim.shard, ShardChoice::none);
  EXPECT_EQ(config.optim.schedule_form, ScheduleForm::neox);
  EXPECT_EQ(config.optim.warmup_fraction, 0.025);
  EXPECT_EQ(config.optim.decay_steps, 100);
  EXPECT_EQ(config.run.steps, 200);
  EXPECT_EQ(config.run.seed, 1234);
  EXPECT_EQ(config.precision.dtype, DType::f32);
  EXPECT_EQ(config.comm.wire, DType::f32);
  EXPECT_EQ(config.checkpoint.every, 0);
  EXPECT_EQ(config.checkpoint.keep, 0);
  EXPECT_EQ(config.checkpoint.resume, "none") << "no load";
  EXPECT_EQ(config.log.every, 100);
}

TEST_F(GptNeox, FinetuneTakesTheWeightsOfLoad) {
  const Config tuned = load_with("{finetune: true, load: weights, save: out}").config;
  EXPECT_EQ(tuned.model.init, "./weights") << "not a name of the hub";
  EXPECT_EQ(tuned.run.dir, "out");
  EXPECT_EQ(tuned.checkpoint.resume, "auto") << "a stopped run has snapshots of its own";
  EXPECT_EQ(load_with("{finetune: true, load: /weights, save: out, iteration: 7}").config.model.init,
            "/weights/global_step7");
  EXPECT_EQ(
      load_with("{finetune: true, load: out, save: out}", {"--model.init=own", "--run.dir=new"}).config.model.init,
      "own");
  EXPECT_ERROR(load_with("{finetune: true, load: out, save: out}"), ErrorKind::config,
               "finetune is true: load is out, the folder of this run; set load to the folder of the weights, or "
               "finetune to false");
  const LoadedConfig scratch = load_with("finetune: true");
  EXPECT_EQ(scratch.config.model.init, "");
  EXPECT_EQ(scratch.config.checkpoint.resume, "none");
  EXPECT_THAT(scratch.notes, testing::Contains(HasSubstr("finetune has no effect without load")));
}

TEST_F(GptNeox, KeysWithoutEffectAreOneLineAndTheirReasonsAreDetails) {
  const LoadedConfig loaded = load();
  EXPECT_THAT(loaded.notes, testing::ElementsAre("2 keys of gpt-neox have no effect here (--verbose shows why): "
                                                 "partition_activations, hostfile"));
  ASSERT_EQ(loaded.details.size(), 2u);
  EXPECT_THAT(loaded.details[1], HasSubstr("a.yml:16: hostfile has no effect here: ranks come from MPI"));
}

TEST_F(GptNeox, NamesAreTheSameWithEitherDash) {
  write_text(folder_ / "b.yml",
             "{\"num-layers\": 2, \"hidden-size\": 64, \"num-attention-heads\": 4, \"seq-length\": 8,"
             "\"max-position-embeddings\": 8, \"train-iters\": 3,"
             "\"train-batch-size\": 4, \"optimizer\": {\"params\": {\"lr\": 0.1}}}");
  EXPECT_EQ(load_config({folder_ / "b.yml"}, {}).config.model.layers, 2);
}

// NeoX compares the later file's words, as they are written, with those that it has, which have '_'.
TEST_F(GptNeox, AKeyInTwoFilesIsRefusedButReplacedWhereTheLaterOneHasDashes) {
  EXPECT_ERROR(
      load_with("{\"num_layers\": 5}"), ErrorKind::config,
      folder_ / "more.yml:1: \"num_layers\" is also set in " + file_ + ":5, but each key may be set in only one file");
  const LoadedConfig later = load_with("{\"num-layers\": 5}");
  EXPECT_EQ(later.config.model.layers, 5);
  EXPECT_THAT(later.notes, testing::Contains(folder_ / "more.yml:1: \"num-layers\" replaces the value from " + file_ +
                                             ":5: in NeoX, a later file overrides a key by writing it with '-'"));
  EXPECT_EQ(load_with("{\"lr-decay-iters\": 50, \"min-lr\": 0.0002}").config.optim.decay_steps, 50);
  EXPECT_EQ(load_with("{\"num-layers\": 5}", {"--num_layers=7"}).config.model.layers, 7) << "flags win";
  write_text(folder_ / "c.yml", "{\"num_layers\": 6}");
  write_text(folder_ / "b.yml", "{\"num-layers\": 5}");
  EXPECT_ERROR(load_config({file_, folder_ / "b.yml", folder_ / "c.yml"}, {}), ErrorKind::config,
               "c.yml:1: \"num_layers\" is also set in " + (folder_ / "b.yml") + ":1");
  write_text(folder_ / "zero.yml", "{\"zero_optimization\": {\"stage\": 1, \"zero_quantized_gradients\": true}}");
  write_text(folder_ / "later.yml", "{\"zero-optimization\": {\"stage\": 2}}");
  EXPECT_EQ(load_config({file_, folder_ / "zero.yml", folder_ / "later.yml"}, {}).config.optim.shard,
            ShardChoice::gradients)
      << "a whole group is replaced";
  EXPECT_ERROR(load_with("{\n\"optimizer\": {\"extra\": 1}}"), ErrorKind::config,
               "more.yml:2: \"optimizer\" is also set in " + file_ + ":10");
  EXPECT_EQ(load_with("model:\n  layers: 6\n").config.model.layers, 6) << "native files let the later one win";
  EXPECT_EQ(load({"--model.layers=7"}).config.model.layers, 7);
}

TEST_F(GptNeox, ReportsAllObjectionsTogether) {
  try {
    load_with(R"({"norm": "scalenorm", "activation": "glu", "num_kv_heads": 3, "hiden_dropout": 0.1,
                  "sliding_window_width": 16, "seed": "x", "zero_optimization": {"stage": 4}})");
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::config);
    EXPECT_THAT(e.what(),
                AllOf(HasSubstr("7 settings cannot be used here:\n"),
                      HasSubstr("norm is \"scalenorm\": only layernorm and rmsnorm are supported"),
                      HasSubstr("activation is \"glu\": only gelu, relu, silu, swish, swiglu, geglu and reglu"),
                      HasSubstr("num_kv_heads is 3: it does not divide num_attention_heads, which is 4")));
    EXPECT_THAT(e.what(),
                AllOf(HasSubstr("has no key \"hiden_dropout\"; did you mean \"hidden_dropout\"?"),
                      HasSubstr("sliding_window_width is 16: NeoX uses it only in layers of attention type flash"),
                      HasSubstr("seed is \"x\", expected a whole number"),
                      HasSubstr("zero_optimization.stage is 4: expected 0 to 3")));
  }
}

TEST_F(GptNeox, ReportsAllProblemsOfTheFlagsTogether) {
  EXPECT_ERROR(load({"--norm=scalenorm", "--te_mha=true", "--deepspeed_extra_args.x=1"}), ErrorKind::config,
               "3 settings cannot be used here:\n");
  EXPECT_ERROR(
      load({"--norm=scalenorm", "--te_mha=true"}), ErrorKind::config,
      "2 settings cannot be used here:\n  --norm is \"scalenorm\": only layernorm and rmsnorm are supported\n  "
      "--te_mha is true: layers of TransformerEngine are not supported; remove it");
}

TEST_F(GptNeox, WhatNeoxHasNoDefaultForMustBeGiven) {
  EXPECT_ERROR(load_config({}, {"--norm=x"}, "gpt-neox"), ErrorKind::config,
               "hidden_size is not given, and NeoX has no default for it");
  write_text(folder_ / "b.yml", "{\"num_layers\": 2}");
  EXPECT_ERROR(load_config({folder_ / "b.yml"}, {}), ErrorKind::config,
               "hidden_size is not given, and NeoX has no default for it");
  EXPECT_ERROR(load_config({folder_ / "b.yml"}, {}), ErrorKind::config,
               "neither train_batch_size nor train_micro_batch_size_per_gpu is given");
}

TEST_F(GptNeox, ItsDefaultClippingIsNoneAndOthersClip) {
  const LoadedConfig loaded = load();
  EXPECT_EQ(loaded.config.optim.clip, 0);
  EXPECT_THAT(to_yaml(loaded), HasSubstr("  clip: 0  # " + file_ +
                                         ":13: gradient_clipping 1.0 is NeoX's default, which NeoX does not pass to "
                                         "DeepSpeed: no clipping; --optim.clip 1 clips\n"));
  EXPECT_EQ(load({"--optim.clip=1"}).config.optim.clip, 1);
  EXPECT_EQ(load({"--gradient_clipping=0.5"}).config.optim.clip, 0.5);
}

TEST_F(GptNeox, OfTheBatchAnyOneOrTwoGiveTheRest) {
  constexpr const char* kModel =
      "num_layers: 2\nhidden_size: 64\nnum_attention_heads: 4\nseq_length: 8\nmax_position_embeddings: 8\n"
      "train_iters: 3\noptimizer: {params: {lr: 0.1}}\n";
  const auto plan = [&](const std::string& batch) {
    write_text(folder_ / "b.yml", kModel + batch);
    return plan_batch(load_config({folder_ / "b.yml"}, {}), 4);
  };
  const auto expect = [](const BatchPlan& found, int64_t global, int64_t micro, int64_t accumulation) {
    EXPECT_EQ(found.global, global);
    EXPECT_EQ(found.micro, micro);
    EXPECT_EQ(found.accumulation, accumulation);
  };
  expect(plan("train_batch_size: 64"), 64, 16, 1);
  expect(plan("train_micro_batch_size_per_gpu: 2"), 8, 2, 1);
  expect(plan("train_batch_size: 64\ntrain_micro_batch_size_per_gpu: 2"), 64, 2, 8);
  expect(plan("train_batch_size: 64\ngradient_accumulation_steps: 2"), 64, 8, 2);
  expect(plan("gradient_accumulation_steps: 2\ntrain_micro_batch_size_per_gpu: 2"), 16, 2, 2);
  expect(plan("train_batch_size: 64\ngradient_accumulation_steps: 2\ntrain_micro_batch_size_per_gpu: 8"), 64, 8, 2);
  EXPECT_ERROR(plan("train_batch_size: 64\ngradient_accumulation_steps: 2\ntrain_micro_batch_size_per_gpu: 4"),
               ErrorKind::config,
               "on 4 data-parallel ranks this gives 32 sequences per step, not the 64 of batch.global");
  EXPECT_ERROR(plan("gradient_accumulation_steps: 2"), ErrorKind::config, "neither train_batch_size nor");
}

TEST_F(GptNeox, ReadsDeepspeedsOwnFile) {
  const LoadedConfig alone = [&] {
    write_text(folder_ / "ds_config.json",
               R"({"train_batch_size": 16, "gradient_clipping": 1.0, "bf16": {"enabled": true},
	"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
	"optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "weight_decay": 0.3}}})");
    return load_config({folder_ / "ds_config.json"}, {});
  }();
  EXPECT_EQ(alone.config.batch.global, 16);
  EXPECT_EQ(alone.config.optim.clip, 1) << "here it does reach DeepSpeed";
  EXPECT_EQ(alone.config.optim.shard, ShardChoice::gradients);
  EXPECT_EQ(alone.config.optim.weight_decay, 0.3);
  EXPECT_EQ(alone.config.optim.beta2, 0.999);
  EXPECT_EQ(alone.config.precision.dtype, DType::bf16);
  EXPECT_EQ(alone.config.run.seed, RunOptions().seed) << "NeoX's defaults are not DeepSpeed's";
  EXPECT_ERROR(load_with(R"({"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 3}}})", {}, "ds.json"),
               ErrorKind::config, "DeepSpeed's schedules are not supported; remove it and set lr_decay_style");
  EXPECT_ERROR(load_with(R"({"gradient_clipping": 1.0})", {}, "ds.json"), ErrorKind::config,
               "each key may be set in only one file");
}

TEST_F(GptNeox, PrecisionIsOneOfThree) {
  EXPECT_EQ(load_with("precision: bfloat16").config.precision.dtype, DType::bf16);
  EXPECT_EQ(load_with("precision: bfloat16").config.comm.wire, DType::bf16);
  EXPECT_EQ(load_with("{precision: bfloat16, fp32_allreduce: True}").config.comm.wire, DType::f32);
  const LoadedConfig fp16 = load_with("fp16: {enabled: true, initial_scale_power: 12}");
  EXPECT_EQ(fp16.config.precision.dtype, DType::f16);
  EXPECT_EQ(fp16.config.precision.loss_scale_initial, 4096);
  const PrecisionOptions scaled =
      load_with(
          "fp16: {enabled: true, loss_scale: 0, loss_scale_window: 500, hysteresis: 3, consecutive_hysteresis: "
          "true, min_loss_scale: 2}")
          .config.precision;
  EXPECT_EQ(scaled.loss_scale, 0);
  EXPECT_EQ(scaled.loss_scale_initial, 65536);
  EXPECT_EQ(scaled.loss_scale_window, 500);
  EXPECT_EQ(scaled.loss_scale_hysteresis, 3);
  EXPECT_TRUE(scaled.loss_scale_refill);
  EXPECT_EQ(scaled.loss_scale_min, 2);
  EXPECT_EQ(load_with("fp16: {enabled: true, loss_scale: 128}").config.precision.loss_scale, 128);
  EXPECT_ERROR(load_with("fp16: {enabled: true, initial_scale_power: 100}"), ErrorKind::config,
               "fp16.initial_scale_power is 100: expected 0 to 60");
  EXPECT_ERROR(load_with("fp16: {enabled: true, fp16_master_weights_and_grads: true}"), ErrorKind::config,
               "master weights and sums of gradients are always in f32; remove it");
  EXPECT_EQ(load_with("fp16: {enabled: true}", {"--precision.dtype=bf16"}).config.precision.dtype, DType::bf16);
  EXPECT_ERROR(load_with("{precision: bfloat16, fp16: {enabled: true}}"), ErrorKind::config,
               "fp16.enabled is true: " + (folder_ / "more.yml") + ":1 requests bfloat16; set only one of the two");
}

TEST_F(GptNeox, PipelineSizesZeroAndOneAreOneStage) {
  EXPECT_EQ(load().config.mesh.pipeline, 1);
  EXPECT_EQ(load({"--pipe_parallel_size=0"}).config.mesh.pipeline, 1);
  EXPECT_EQ(load({"--pipe_parallel_size=4"}).config.mesh.pipeline, 4);
}

TEST_F(GptNeox, UnsupportedModelsAreRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"gpt_j_tied: true", "has its own norm"},
      {"pos_emb_: 1", "did you mean \"pos_emb\"?"},
      {"attention_config: [[[\"local\"], 4]]", "attention of type local is not supported; set global or flash"},
      {"attention_config: [[[\"flash\"], 3]]", "it describes 3 layers, but num_layers is 4"},
      {"attention_config: flash", "attention_config is \"flash\", expected a list"},
      {"use_bias_in_mlp: false", "with gpt_j_residual, NeoX drops the attention's output"},
      {"init_method_std: 0.3\nmlp_multiple_of: 256\nuse_mup: true", "muP is not supported"},
      {"mlp_multiple_of: 100", "the MLP's width is 256, not a multiple of it; set intermediate_size"},
      {"tokenizer_type: SPMTokenizer", "supported: HFTokenizer"},
      {"merge_file: m.txt", "GPT2BPETokenizer needs vocab_file and merge_file"},
      {"train_epochs: 2", "set train_iters"},
      {"use_comet: true",
       "Comet is not supported; metrics are written to RUN/metrics.jsonl and RUN/tensorboard; set false"},
      {"use_wandb: true", "Weights & Biases is not supported; metrics are written to RUN/metrics.jsonl and "},
      {"eval_tasks: [lambada]", "tasks of lm-evaluation-harness are not supported"},
      {"gas: 2", "gas is 2: older versions of NeoX accepted gas but used only gradient_accumulation_steps, which is 3"},
      {"save_interval: 5\ncheckpoint_factor: 6", "it is an older name of checkpoint_factor, which is 6"},
      {"expansion_factor: 3\nintermediate_size: 128", "intermediate_size also sets the MLP's width"},
      {"num_unique_layers: 2", "layers that share weights are not supported; set it to num_layers"},
      {"sliding_window_width: 8", "NeoX uses it only in layers of attention type flash"},
      {"use_qk_layernorm: true", "a gain per value of every head of a model-parallel rank"},
      {"final_norm: rmsnorm", "only the same norm as in the blocks"},
      {"activation: swiglu\nintermediate_size: 14336",
       "its first matrix has 9558 rows and its second one 4778 columns; set intermediate_size to 3 times"},
      {"weight_by_num_documents: true\ntrain_data_paths: [a, b]", "set train_data_weights"},
      {"num_workers: 2\nhiden_size: null", "has no key \"hiden_size\"; did you mean \"hidden_size\"?"},
      {"use_shared_fs: false", "--data.index-dir FOLDER"},
      {"test_data_paths: [a]", "NeoX reads it only with train_data_paths"},
      {"{train_data_paths: [a, b], train_data_weights: [1]}", "2 paths and 1 weight"},
      {"checkpoint_scale: log", "set linear"},
      {"fp16: {enabled: true, type: bfloat16}\nprecision: fp16", "requests fp16; set only one of the two"},
      {"deepspeed_extra_args: {a: 1}", "DeepSpeed has no key \"a\"; remove it from deepspeed_extra_args"},
      {"deepspeed_extra_args: {optimizer: {type: Lamb}}", "the optimizer in deepspeed_extra_args has no effect"},
      {"deepspeed_extra_args: {elasticity: {enabled: true}}", "this part of DeepSpeed is not supported"},
  };
  for (const auto& [text, message] : cases) {
    SCOPED_TRACE(text);
    EXPECT_ERROR(load_with(text), ErrorKind::config, message);
  }
  EXPECT_ERROR(load({"--eval_tasks=lambada"}), ErrorKind::config,
               "--eval_tasks cannot be used here: tasks of lm-evaluation-harness are not supported");
  EXPECT_ERROR(load({"--output_layer_init_method=normal"}), ErrorKind::config,
               "init_method small_init with output_layer_init_method normal");
  EXPECT_NO_THROW(load_with("attention_config: [[[\"flash\", global], 2]]"));
  EXPECT_NO_THROW(load_with("attention_config: [[[\"flash\"], all]]"));
}

TEST_F(GptNeox, DataAndTokenizers) {
  const DataOptions one =
      load_with("{data_path: d/x_text_document, vocab_file: v.json, merge_file: m.txt}").config.data;
  EXPECT_EQ(one.train, "d/x_text_document");
  EXPECT_EQ(one.split, "969, 30, 1");
  EXPECT_EQ(one.merges, "m.txt");
  const DataOptions many =
      load_with(
          "{train_data_paths: [a, b], train_data_weights: [1., 2], valid_data_paths: [c], test_data_paths: [d, e]}")
          .config.data;
  EXPECT_EQ(many.train, "1 a 2 b");
  EXPECT_EQ(many.validation, "1 c") << "NeoX blends a single path too: its order has half a per cent more samples";
  EXPECT_EQ(load_with("{train_data_paths: [a], weight_by_num_documents: true}").config.data.train, "1 a");
  EXPECT_EQ(load_with("{train_data_paths: [a, b], train_data_weights: [1_000, 2]}").config.data.train, "1000 a 2 b");
  EXPECT_EQ(many.test, "1 d 1 e");
  EXPECT_EQ(many.split, "");
  EXPECT_EQ(load_with("tokenizer_type: CharLevelTokenizer").config.data.tokenizer, "CharLevelTokenizer");
}

// Options come first, what a file leaves open follows from both.
TEST_F(GptNeox, WhatFollowsIsDerivedAfterTheOptions) {
  constexpr const char* kModel =
      "num_layers: 2\nhidden_size: 64\nnum_attention_heads: 4\nseq_length: 8\nmax_position_embeddings: 8\n"
      "train_iters: 3\noptimizer: {params: {lr: 0.1}}\n";
  const struct {
    const char* file;
    std::vector<std::string> flags;
    int64_t global, micro, accumulation;
  } cases[] = {
      // on 4 ranks
      {"train-batch-size: 64", {"--batch.micro", "1"}, 64, 1, 16},
      {"train-batch-size: 64", {"--batch.accumulation", "2"}, 64, 8, 2},
      {"train_batch_size: 64\ntrain_micro_batch_size_per_gpu: 4", {"--batch.micro", "1"}, 64, 1, 16},
      {"train_batch_size: 64\ntrain_micro_batch_size_per_gpu: 4", {"--batch.accumulation", "8"}, 64, 2, 8},
      {"train_batch_size: 64\ngradient_accumulation_steps: 2", {"--batch.micro", "1"}, 64, 1, 16},
      {"train_batch_size: 64\ntrain_micro_batch_size_per_gpu: 4\ngradient_accumulation_steps: 4",
       {"--batch.micro", "2"},
       64,
       2,
       8},
      {"train_batch_size: 64\ntrain_micro_batch_size_per_gpu: 4\ngradient_accumulation_steps: 4",
       {"--batch.accumulation", "2"},
       64,
       8,
       2},
      {"train_micro_batch_size_per_gpu: 4", {"--batch.accumulation", "2"}, 32, 4, 2},
      {"train_micro_batch_size_per_gpu: 4\ngradient_accumulation_steps: 3", {"--batch.micro", "8"}, 96, 8, 3},
      {"train_micro_batch_size_per_gpu: 4\ngradient_accumulation_steps: 3", {"--batch.accumulation", "1"}, 16, 4, 1},
      {"gradient_accumulation_steps: 3", {"--batch.micro", "2"}, 24, 2, 3},
      {"train_batch_size: 64", {"--batch.global", "32", "--batch.micro", "2"}, 32, 2, 4},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(std::string(c.file) + " " + c.flags[0]);
    write_text(folder_ / "b.yml", std::string(kModel) + c.file);
    const BatchPlan plan = plan_batch(load_config({folder_ / "b.yml"}, c.flags), 4);
    EXPECT_EQ(plan.global, c.global);
    EXPECT_EQ(plan.micro, c.micro);
    EXPECT_EQ(plan.accumulation, c.accumulation);
  }
  EXPECT_EQ(load({"--mesh.tensor=3"}).config.model.vocabulary_multiple, 384) << "128 x the ranks of the run";
  EXPECT_EQ(load({"--mesh.tensor=1"}).config.model.vocabulary_multiple, 128);
  EXPECT_EQ(load({"--optim.warmup-steps=3", "--warmup=0"}).config.optim.warmup_steps, 3);
}

TEST_F(GptNeox, SequenceParallelIsOurs) {
  EXPECT_FALSE(load().config.mesh.sequence);
  EXPECT_TRUE(load_with("sequence_parallel: true").config.mesh.sequence);
  EXPECT_TRUE(load_with("\"sequence-parallel\": True").config.mesh.sequence);
  EXPECT_FALSE(load_with("sequence_parallel: true", {"--mesh.tensor=1"}).config.mesh.sequence) << "nothing to share";
  EXPECT_FALSE(load_with("sequence_parallel: true", {"--mesh.sequence=false"}).config.mesh.sequence);
  const LoadedConfig given = load_with("sequence_parallel: true");
  EXPECT_THAT(given.notes, testing::Not(testing::Contains(HasSubstr("sequence_parallel"))));
}

TEST_F(GptNeox, NumbersAndWordsArePyyamls) {
  EXPECT_EQ(load_with("seed: 1_000").config.run.seed, 1000);
  EXPECT_EQ(load_with("seed: 017").config.run.seed, 15) << "octal, in YAML 1.1";
  EXPECT_EQ(load_with("seed: 0x1F").config.run.seed, 31);
  EXPECT_EQ(load_with("eval_interval: 1e3").config.evaluation.every, 1000);
  EXPECT_EQ(load_with("weight_decay: .1").config.optim.weight_decay, 0.1);
  EXPECT_EQ(load_with("rotary_emb_base: 10_000.0").config.model.rotary_base, 10000);
  EXPECT_EQ(load_with("checkpoint-activations: yes").config.model.recompute, Recompute::full);
  EXPECT_EQ(load_with("checkpoint-activations: Off").config.model.recompute, Recompute::none);
  EXPECT_EQ(load_with("save: 1_000").config.run.dir, "1_000") << "a text stays as it is";
  EXPECT_EQ(load({"--seed=2_000"}).config.run.seed, 2000);
  EXPECT_ERROR(load_with("seed: 1.5"), ErrorKind::config, "seed is 1.5, expected a whole number");
  EXPECT_ERROR(load_with("seed: yes"), ErrorKind::config, "seed is \"yes\", expected a whole number");
}

// What the published files of Pythia have, and those of its time.
TEST_F(GptNeox, OlderKeys) {
  EXPECT_EQ(load_with("save-interval: 500").config.checkpoint.every, 500);
  EXPECT_EQ(load_with("save_interval: 5\ncheckpoint_factor: 5").config.checkpoint.every, 5);
  EXPECT_NO_THROW(load_with("gas: 3")) << "gradient_accumulation_steps is 3, too";
  EXPECT_ERROR(load({"--optimizer.params.max_grad_norm=1.0"}), ErrorKind::config,
               "optimizer.params.max_grad_norm cannot be used here: set gradient_clipping instead");
  EXPECT_EQ(load_with("fp16: {enabled: true, type: bfloat16}").config.precision.dtype, DType::bf16);
  EXPECT_EQ(load_with("fp16: {enabled: false, type: bfloat16}").config.precision.dtype, DType::f32);
  EXPECT_EQ(load_with("lr_decay_fraction: 0.5").config.optim.decay_steps, 100) << "lr_decay_iters wins";
  write_text(folder_ / "b.yml",
             "num_layers: 2\nhidden_size: 64\nnum_attention_heads: 4\nseq_length: 8\nmax_position_embeddings: 8\n"
             "train_iters: 7\noptimizer: {params: {lr: 0.1}}\ntrain_batch_size: 4\n");
  const auto with_share = [&](const std::string& share, const std::vector<std::string>& flags = {}) {
    write_text(folder_ / "share.yml", "lr_decay_fraction: " + share);
    return load_config({folder_ / "b.yml", folder_ / "share.yml"}, flags).config.optim.decay_steps;
  };
  EXPECT_EQ(with_share("0.5"), 3) << "rounded down";
  EXPECT_EQ(with_share("0.01"), 1);
  EXPECT_EQ(with_share("0.5", {"--run.steps=20"}), 10) << "of the steps of the run";
  EXPECT_ERROR(with_share("1.5"), ErrorKind::config, "expected a fraction of train_iters");
  EXPECT_EQ(load_with("expansion_factor: 2.5").config.model.inner_width, 160);
  EXPECT_EQ(load_with("sliding_window_width: 32\nnum_unique_layers: 4").config.model.layers, 4);
}

/// NeoX's llama and mistral files, in small: the widths are those that its transformer.py computes.
TEST_F(GptNeox, LlamaAndMistralAreMapped) {
  const ModelOptions llama = load_with(
                                 "norm: rmsnorm\nrms_norm_epsilon: 1.0e-5\nactivation: swiglu\n"
                                 "intermediate_size: 32768\nmlp_multiple_of: 256\nuse_bias_in_norms: false")
                                 .config.model;
  EXPECT_EQ(llama.norm, NormKind::rms);
  EXPECT_EQ(llama.norm_epsilon, 1e-5);
  EXPECT_TRUE(llama.gated);
  EXPECT_EQ(llama.activation, Activation::silu);
  EXPECT_EQ(llama.inner_width, 11008) << "Llama 2 7B";
  const ModelOptions mistral =
      load_with(
          "norm: rmsnorm\nactivation: swiglu\nintermediate_size: 43008\nnum_kv_heads: 2\n"
          "sliding_window_width: 8\nattention_config: [[[flash], 4]]\nrotary_emb_base: 1000000")
          .config.model;
  EXPECT_EQ(mistral.key_heads, 2);
  EXPECT_EQ(mistral.window, 9) << "its own position and 8 before it";
  EXPECT_EQ(mistral.inner_width, 14336);
  EXPECT_EQ(mistral.rotary_base, 1e6);
  EXPECT_EQ(mistral.norm_epsilon, 1e-8) << "NeoX's default";
  EXPECT_EQ(load_with("activation: geglu").config.model.inner_width, 85) << "2/3 of 256, halved";
  EXPECT_EQ(load_with("activation: swish").config.model.activation, Activation::silu);
}

TEST_F(GptNeox, KeysOfDeepspeedMayBeInExtraArgs) {
  EXPECT_NO_THROW(load_with("deepspeed_extra_args: {comms_logger: {enabled: true, verbose: false}}"));
  EXPECT_NO_THROW(load_with("deepspeed-extra-args: {}"));
  EXPECT_EQ(load_with("deepspeed_extra_args: {bf16: {enabled: true}}").config.precision.dtype, DType::bf16);
  EXPECT_EQ(load_with("deepspeed_extra_args: {zero_optimization: {stage: 2}}").config.optim.shard,
            ShardChoice::gradients);
  EXPECT_EQ(load_with("deepspeed_extra_args: {gradient_clipping: 1.0}").config.optim.clip, 1)
      << "this one reaches DeepSpeed";
}

TEST_F(GptNeox, AFileMayBeJsonAsAYamlIs) {
  write_text(folder_ / "a.json", R"({"num_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "seq_length": 8,
    "max_position_embeddings": 8, "train_iters": 3, "train_batch_size": 4, "gradient_clipping": 1.0,
    "optimizer": {"params": {"lr": 0.1}}})");
  const LoadedConfig loaded = load_config({folder_ / "a.json"}, {});
  EXPECT_EQ(loaded.config.model.layers, 2);
  EXPECT_EQ(loaded.config.optim.clip, 0) << "it is NeoX's file, not DeepSpeed's";
}

TEST_F(GptNeox, AWarmUpOfLessThanAnUpdateIsReported) {
  EXPECT_THAT(
      load({"--warmup=0.005"}).notes,
      testing::Contains(HasSubstr("warmup 0.005 of 100 updates is 0.5 updates, less than one: with NeoX's formula the "
                                  "first update has 2 times the peak rate; set warmup 0 for the peak rate")));
  EXPECT_THAT(
      load({"--warmup=0.01", "--optim.decay-steps=40"}).notes,
      testing::Contains(HasSubstr("warmup 0.01 of 40 updates is 0.4 updates, less than one: with NeoX's formula "
                                  "the first update has 2.5 times the peak rate")))
      << "also where a native option sets the length";
  for (const char* warmup : {"--warmup=0", "--warmup=0.01", "--warmup=0.5"})
    EXPECT_THAT(load({warmup}).notes, testing::Not(testing::Contains(HasSubstr("peak rate")))) << warmup;
}

TEST_F(GptNeox, HintsNameKeysOfTheSameMeaning) {
  const std::pair<const char*, const char*> cases[] = {
      {"learning_rate", "did you mean \"optimizer.params.lr\"?"},
      {"max_grad_norm", "\"gradient_clipping\"?"},
      {"save_steps", "\"checkpoint_factor\"?"},
      {"eval-steps", "\"eval_interval\"?"},
      {"n_layer", "\"num_layers\"?"},
      {"max_iters", "\"train_iters\"?"},
      {"hiddensize", "\"hidden_size\"?"},
      {"eval_itters", "\"eval_iters\"?"},
      {"lr_decay_styl", "\"lr_decay_style\"?"},
  };
  for (const auto& [key, hint] : cases)
    EXPECT_ERROR(load_with(fmt::format("num_workers: 2\n{}: 3", key)), ErrorKind::config, hint);
  EXPECT_ERROR(load_with("n_layer: 3"), ErrorKind::config, "did you mean \"num_layers\"?");  // alone in its file
  // a word more, less or another is another meaning
  for (const char* key : {"save_every", "test_interval", "load_interval", "num_tokens", "train_seed", "data_seed",
                          "max_lr", "final_lr", "train_tokens", "hidden_layers", "opt_seed"})
    EXPECT_ERROR(load_with(fmt::format("num_workers: 2\n{}: 3", key)), ErrorKind::config,
                 fmt::format("has no key \"{}\"; docs/options.md lists its keys", key));
}

TEST_F(GptNeox, MaskedEndsAskForTheMeanThatIsMeant) {
  EXPECT_FALSE(load_with("eod_mask_loss: false").config.data.mask_end_of_text);
  EXPECT_ERROR(load_with("eod_mask_loss: true"), ErrorKind::config, "--optim.loss-mean tokens, over all tokens, or");
  const Config masked = load_with("eod_mask_loss: true", {"--optim.loss-mean", "micro-batches"}).config;
  EXPECT_TRUE(masked.data.mask_end_of_text);
  EXPECT_EQ(masked.optim.loss_mean, LossMean::micro_batches);
  EXPECT_EQ(load_with("eod_mask_loss: true", {"--optim.loss-mean", "tokens"}).config.optim.loss_mean, LossMean::tokens);
}

TEST_F(GptNeox, FoldersOfNeoxAreNeverWritten) {
  const std::string theirs = folder_ / "theirs", ours = folder_ / "ours";
  std::filesystem::create_directories(theirs);
  std::filesystem::create_directories(ours);
  const auto both = [&](const std::string& save, const std::string& load) {
    return load_with("{save: " + save + ", load: " + load + "}");
  };
  const LoadedConfig fresh = both(theirs, theirs);
  EXPECT_THAT(fresh.notes, testing::Contains(HasSubstr("load is " + theirs +
                                                       ", which has no checkpoint; the run starts from scratch")));
  EXPECT_EQ(fresh.config.checkpoint.resume, "auto");
  write_text(theirs + "/latest", "global_step3");
  write_text(ours + "/latest", "step-00000003\n");
  EXPECT_ERROR(both(theirs, ours), ErrorKind::config,
               "which are never overwritten; name another folder: --run.dir " + theirs + "-trireme");
  EXPECT_EQ(both(folder_ / "new", theirs).config.checkpoint.resume, theirs);
  EXPECT_EQ(load_with("{load: " + theirs + "}", {"--run.dir", folder_ / "new"}).config.checkpoint.resume, theirs);
  const LoadedConfig again = both(ours, theirs);
  EXPECT_EQ(again.config.checkpoint.resume, "auto");
  EXPECT_THAT(again.notes,
              testing::Contains(
                  HasSubstr("load is " + theirs +
                            ", which has NeoX's own checkpoints; resuming from the run's newer snapshots in " + ours)));
  EXPECT_EQ(both(ours, ours).config.checkpoint.resume, "auto");
  EXPECT_EQ(both(folder_ / "new", ours).config.checkpoint.resume, ours);
  EXPECT_EQ(load_with("extra_save_iters: [0, 1, 2]").config.checkpoint.also, "0,1,2");
}

TEST_F(GptNeox, NativeFilesAndOtherProgramsFilesAreNotMistakenForIt) {
  write_text(folder_ / "native.yaml", "model:\n  layers: 3\n");
  EXPECT_EQ(load_config({folder_ / "native.yaml"}, {}).dialect, "native");
  write_text(folder_ / "group.yaml", "precision: {dtype: bf16}\n");
  EXPECT_EQ(load_config({folder_ / "group.yaml"}, {}).dialect, "native");
  write_text(folder_ / "empty.yaml", "precision:\ncheckpoint:\n");
  EXPECT_EQ(load_config({folder_ / "empty.yaml"}, {}).dialect, "native");
  write_text(folder_ / "snapshots.yaml", "checkpoint: {every: 3}\n");
  EXPECT_EQ(load_config({folder_ / "snapshots.yaml"}, {}).dialect, "native");
  EXPECT_EQ(load_with("precision: null\ncheckpoint: {load_universal: false}").dialect, "gpt-neox")
      << "groups of this name are in both";
  write_text(folder_ / "mixed.yaml", "model:\n  layers: 3\nnum_layers: 3\n");
  EXPECT_ERROR(load_config({folder_ / "mixed.yaml"}, {}), ErrorKind::config,
               "it is a key of dialect gpt-neox; add --dialect gpt-neox");
}

}  // namespace
}  // namespace trireme
