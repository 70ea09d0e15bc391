#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "config/load.h"
#include "config/validate.h"
#include "tests/support/expect_error.h"
#include "tests/support/test_data.h"

namespace trireme {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

// Of NeoX's own files. Batch: 1 step x the micro-batch x the data-parallel ranks; the schedule's warm-up is 1 % of the
// decay; shard is the stage of zero_optimization; min_lr is 0 where the file names none; weights start as init_method
// and output_layer_init_method say, NeoX's defaults (normal 0.02, scaled_normal) where they do not.
struct Published {
  std::vector<const char*> files;
  int ranks, data, tensor, pipeline;
  int64_t layers, width, heads, micro, accumulation, global, steps;
  double rate, min_rate, beta2, decay, rotary;
  bool parallel, tanh;
  InitScheme init;
  DType dtype;
  ShardChoice shard;
  const char* split;
};

// clang-format off
constexpr auto neox = InitScheme::neox, gpt2 = InitScheme::gpt2;
constexpr auto sharded = ShardChoice::optimizer, unsharded = ShardChoice::none;
const Published kPublished[] = {
    // files, ranks, data, tensor, pipeline, layers, width, heads, micro, accumulation, global, steps,
    // rate, min_rate, beta2, decay, rotary, parallel, tanh, init, dtype, shard, split
    {{"125M", "local_setup"}, 2, 2, 1, 1, 12, 768, 12, 4, 1, 8, 320000, 6e-4, 6e-5, 0.95, 0.1, 1, false, false, neox, DType::f16, sharded, "969, 30, 1"},
    {{"1-3B", "local_setup"}, 8, 8, 1, 1, 24, 2048, 16, 4, 1, 32, 320000, 2e-4, 2e-5, 0.95, 0.1, 1, false, false, neox, DType::f16, sharded, "969, 30, 1"},
    {{"2-7B", "local_setup"}, 24, 24, 1, 1, 32, 2560, 32, 4, 1, 96, 320000, 1.6e-4, 1.6e-5, 0.95, 0.1, 1, false, false, neox, DType::f16, sharded, "969, 30, 1"},
    {{"6-7B", "slurm_local"}, 8, 8, 1, 1, 32, 4096, 32, 4, 1, 32, 320000, 1.2e-4, 1.2e-5, 0.95, 0.1, 1, false, false, neox, DType::f16, sharded, "969, 30, 1"},
    // 96 ranks / (4 x 2) = 12; 4 x 32 x 12 = 1536
    {{"20B"}, 96, 12, 2, 4, 44, 6144, 64, 4, 32, 1536, 150000, 0.97e-4, 0.97e-5, 0.95, 0.01, 0.25, true, true, neox, DType::f16, sharded, "995,4,1"},
    {{"bf16_125M", "local_setup"}, 4, 4, 1, 1, 12, 768, 12, 4, 1, 16, 320000, 6e-4, 0, 0.999, 0, 1, false, false, gpt2, DType::bf16, unsharded, "949,50,1"},
    {{"slurm_125M", "slurm_local"}, 1, 1, 1, 1, 12, 768, 12, 4, 1, 4, 320000, 6e-4, 0, 0.999, 0, 1, false, true, gpt2, DType::f16, unsharded, "949,50,1"},
    // Pythia: batches of 1024 sequences; no data_path
    {{"pythia_1-4B"}, 64, 64, 1, 1, 24, 2048, 16, 16, 1, 1024, 143000, 2e-4, 2e-5, 0.95, 0.1, 0.25, true, true, neox, DType::f16, sharded, ""},
    {{"pythia_12B"}, 256, 64, 4, 1, 36, 5120, 40, 8, 2, 1024, 143000, 1.2e-4, 1.2e-5, 0.95, 0.1, 0.25, true, true, gpt2, DType::f16, sharded, ""},
};
// clang-format on

LoadedConfig load_published(const std::vector<const char*>& files) {
  std::vector<std::string> paths;
  for (const char* file : files) paths.push_back((test_data_dir() / "configs/neox" / file).string() + ".yml");
  return load_config(paths, {});
}

TEST(GptNeoxFiles, ResolveLikeNeox) {
  TRIREME_NEEDS_TEST_DATA("configs/neox");
  for (const Published& set : kPublished) {
    SCOPED_TRACE(set.files[0]);
    const LoadedConfig loaded = load_published(set.files);
    const Config& config = loaded.config;
    EXPECT_EQ(config.model.layers, set.layers);
    EXPECT_EQ(config.model.width, set.width);
    EXPECT_EQ(config.model.heads, set.heads);
    EXPECT_EQ(config.model.context, 2048);
    EXPECT_EQ(config.batch.sequence, 2048);
    EXPECT_EQ(config.mesh.tensor, set.tensor);
    EXPECT_EQ(config.mesh.pipeline, set.pipeline);
    EXPECT_EQ(set.data * set.tensor * set.pipeline, set.ranks);
    const BatchPlan plan = plan_batch(loaded, set.data);
    EXPECT_EQ(plan.global, set.global);
    EXPECT_EQ(plan.micro, set.micro);
    EXPECT_EQ(plan.accumulation, set.accumulation);
    EXPECT_EQ(config.run.steps, set.steps);
    EXPECT_EQ(config.optim.decay_steps, set.steps);
    EXPECT_EQ(config.optim.warmup_fraction, 0.01);
    EXPECT_EQ(config.optim.schedule, RateCourse::cosine);
    EXPECT_EQ(config.optim.schedule_form, ScheduleForm::neox);
    EXPECT_EQ(config.optim.learning_rate, set.rate);
    EXPECT_EQ(config.optim.min_learning_rate, set.min_rate);
    EXPECT_EQ(config.optim.beta1, 0.9);
    EXPECT_EQ(config.optim.beta2, set.beta2);
    EXPECT_EQ(config.optim.epsilon, 1e-8);
    EXPECT_EQ(config.optim.weight_decay, set.decay);
    EXPECT_EQ(config.optim.clip, 0) << "gradient_clipping is 1.0";
    EXPECT_EQ(config.optim.shard, set.shard);
    EXPECT_EQ(config.model.position, Position::rotary);
    EXPECT_EQ(config.model.rotary_fraction, set.rotary);
    EXPECT_EQ(config.model.residual, set.parallel ? Residual::parallel : Residual::sequential);
    EXPECT_EQ(config.model.activation, set.tanh ? Activation::gelu_tanh : Activation::gelu_erf);
    EXPECT_EQ(config.model.init_scheme, set.init);
    EXPECT_FALSE(config.model.tied_head);
    EXPECT_EQ(config.model.recompute, Recompute::full);
    EXPECT_EQ(config.model.vocabulary_multiple, 128 * set.tensor);
    EXPECT_EQ(config.precision.dtype, set.dtype);
    EXPECT_EQ(config.comm.wire, set.dtype == DType::bf16 ? DType::f32 : DType::bf16) << "fp32_allreduce";
    EXPECT_EQ(config.data.split, set.split);
    EXPECT_EQ(config.run.seed, 1234);
  }
}

// What NeoX wrote beside the weights: arguments, the DeepSpeed configuration, the scheduler's state.
TEST(GptNeoxFiles, AgreeWithTheArgumentsInNeoxsCheckpoints) {
  TRIREME_NEEDS_TEST_DATA("neox_ckpt");
  const auto load = [](const char* path) { return load_config({(test_data_dir() / path).string()}, {}); };
  const LoadedConfig split = load("neox_ckpt/par_tp2/ckpt/global_step7/configs/tiny.yml");
  EXPECT_EQ(split.config.model.layers, 4);
  EXPECT_EQ(split.config.model.width, 32);
  EXPECT_EQ(split.config.model.heads, 4);
  EXPECT_EQ(split.config.model.context, 64);
  EXPECT_EQ(split.config.mesh.tensor, 2);
  EXPECT_EQ(288 % split.config.model.vocabulary_multiple, 0) << "padded_vocab_size";
  EXPECT_EQ(split.config.model.vocabulary_multiple, 48);
  EXPECT_EQ(plan_batch(split, 1).global, 2) << "train_batch_size";
  EXPECT_EQ(split.config.optim.clip, 0) << "ds_config has no gradient_clipping, the file says 1.0";
  const LoadedConfig whole = load("neox_ckpt/zero_dp2_tp1/ckpt/global_step3/configs/tiny.yml");
  EXPECT_EQ(plan_batch(whole, 2).global, 4);
  EXPECT_EQ(whole.config.model.inner_width, 34);
  EXPECT_EQ(whole.config.optim.shard, ShardChoice::optimizer);
  EXPECT_EQ(whole.config.optim.warmup_fraction * 20, 2.0) << "warmup_iter";
  EXPECT_EQ(whole.config.optim.decay_steps, 20) << "end_iter";
  EXPECT_EQ(whole.config.precision.dtype, DType::f16);
}

// As Pythia published them, with keys of their time.
TEST(GptNeoxFiles, OlderOnesAreReadOrRefusedWithTheKeyOfToday) {
  TRIREME_NEEDS_TEST_DATA("field/10-neox-wild-yaml");
  const auto load = [](const char* name) {
    return load_config({(test_data_dir() / "field/10-neox-wild-yaml" / name).string()}, {"--precision.dtype=bf16"});
  };
  const LoadedConfig pythia = load("pythia-160m.yml");
  EXPECT_EQ(pythia.config.checkpoint.every, 500) << "save-interval";
  EXPECT_EQ(pythia.config.evaluation.every, 40000);
  EXPECT_EQ(plan_batch(pythia, 32).global, 1024) << "gas 1";
  EXPECT_EQ(pythia.config.data.train, "1 pile/a_text_document");
  EXPECT_EQ(load("exponents.yml").config.optim.learning_rate, 6e-4);
  EXPECT_ERROR(load("pythia-gas2.yml"), ErrorKind::config, "used only gradient_accumulation_steps, which is 1");
  EXPECT_ERROR(load("readme.yml"), ErrorKind::config,
               "max_grad_norm cannot be used here: set gradient_clipping instead");
}

TEST(GptNeoxFiles, Llama2IsRefusedOnlyForItsRun) {
  TRIREME_NEEDS_TEST_DATA("configs/neox");
  for (const std::vector<const char*>& files :
       {std::vector<const char*>{"llama2_7B"}, {"llama2_7B", "llama_train_config", "local_setup"}}) {
    try {
      load_published(files);
      ADD_FAILURE() << "no error";
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), Not(AnyOf(HasSubstr("rmsnorm"), HasSubstr("swiglu"), HasSubstr("mlp_multiple_of"))));
      EXPECT_THAT(e.what(), HasSubstr(files.size() > 1 ? "finetune is true: load is checkpoints, the folder of this run"
                                                       : "train_iters is not given"));
    }
  }
}

}  // namespace
}  // namespace trireme
