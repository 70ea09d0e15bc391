#include "config/trl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "config/load.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::HasSubstr;

Config sft(const std::vector<std::string>& flags) { return load_config({}, flags, "trl-sft").config; }

TEST(Trl, SetsOnlyWhatIsGivenBesideNativeFlags) {
  const LoadedConfig loaded = load_config(
      {},
      {"--model.init", "m", "--warmup_ratio", "0.1", "--logging_steps=5", "--packing", "--bf16", "--max_steps", "7"},
      "trl-sft");
  EXPECT_EQ(loaded.config.optim.warmup_fraction, 0.1);
  EXPECT_EQ(loaded.config.log.every, 5);
  EXPECT_TRUE(loaded.config.chat.packing);
  EXPECT_EQ(loaded.config.precision.dtype, DType::bf16);
  EXPECT_EQ(loaded.config.run.steps, 7);
  EXPECT_FALSE(loaded.given("chat.loss-on"));
  EXPECT_FALSE(loaded.given("batch.per-rank"));
  EXPECT_FALSE(loaded.given("run.seed"));
}

TEST(Trl, ACommandLineThatNamesTheModelHasItsDefaults) {
  const LoadedConfig loaded =
      load_config({}, {"--default", "batch.global=8", "--model_name_or_path", "m", "--dataset_name=d"}, "trl-sft");
  EXPECT_EQ(loaded.config.model.init, "m");
  EXPECT_EQ(loaded.config.data.train, "d");
  EXPECT_EQ(loaded.config.batch.per_rank, 8);
  EXPECT_EQ(loaded.config.batch.micro, 8);
  EXPECT_EQ(loaded.config.optim.schedule, RateCourse::linear);
  EXPECT_EQ(loaded.config.chat.loss_on, chat::LossOn::all);
  EXPECT_FALSE(loaded.config.chat.packing);
  EXPECT_EQ(loaded.config.chat.validation_share, 0);
  EXPECT_EQ(loaded.config.checkpoint.every, 500);
  EXPECT_EQ(loaded.config.precision.dtype, DType::bf16);
  EXPECT_EQ(loaded.config.model.recompute, Recompute::full);
  EXPECT_EQ(loaded.config.run.seed, 42);
  EXPECT_EQ(sft({"--model_name_or_path", "m", "--batch.global", "16"}).batch.per_rank, 0);
  EXPECT_EQ(sft({"--model_name_or_path", "m", "--chat.loss-on", "last"}).chat.loss_on, chat::LossOn::last);
}

TEST(Trl, TranslatesTheUsualArguments) {
  const Config config = sft({"--model_name_or_path=m",
                             "--model_revision=v2",
                             "--use_peft",
                             "--lora_r=8",
                             "--lora_target_modules=q_proj,v_proj",
                             "--per_device_train_batch_size=4",
                             "--gradient_accumulation_steps=2",
                             "--lr_scheduler_type=cosine_with_restarts",
                             "--warmup_steps=0.1",
                             "--eval_strategy=steps",
                             "--eval_steps=20",
                             "--save_strategy=epoch",
                             "--save_total_limit=3",
                             "--output_dir=out",
                             "--assistant_only_loss=True",
                             "--max_length=512",
                             "--gradient_checkpointing=False",
                             "--resume_from_checkpoint=True",
                             "--max_steps=-1",
                             "--report_to=wandb"});
  EXPECT_EQ(config.model.init, "m@v2");
  EXPECT_EQ(config.lora.rank, 8);
  EXPECT_EQ(config.lora.alpha, 32);
  EXPECT_EQ(config.lora.targets, "q_proj,v_proj");
  EXPECT_EQ(config.batch.per_rank, 8);
  EXPECT_EQ(config.batch.micro, 4);
  EXPECT_EQ(config.optim.schedule, RateCourse::cosine_with_restarts);
  EXPECT_EQ(config.optim.warmup_fraction, 0.1);
  EXPECT_EQ(config.evaluation.every, 20);
  EXPECT_EQ(config.checkpoint.keep, 3);
  EXPECT_EQ(config.run.dir, "out");
  EXPECT_EQ(config.chat.loss_on, chat::LossOn::assistant);
  EXPECT_EQ(config.batch.sequence, 512);
  EXPECT_EQ(config.model.recompute, Recompute::none);
  EXPECT_EQ(config.checkpoint.resume, "auto");
}

TEST(Trl, SaysAllProblemsOfACommandLineAtOnce) {
  try {
    sft({"--optim=adafactor", "--fsdp=full_shard", "--load_in_4bit", "--neftune_noise_alpha=5", "--loss_type=dft",
         "--logging_steps=0.5"});
    ADD_FAILURE() << "nothing was refused";
  } catch (const Error& error) {
    for (const char* part :
         {"--optim is \"adafactor\": the optimizer is AdamW", "--fsdp cannot be used here: --optim.shard parameters",
          "--load_in_4bit is true: bases of 8 or 4 bits", "--neftune_noise_alpha cannot be used here",
          "--loss_type is \"dft\"", "--logging_steps is 0.5: expected a number of steps"})
      EXPECT_THAT(error.what(), HasSubstr(part));
  }
}

TEST(Trl, LossTypesBelongToTheirScript) {
  EXPECT_EQ(load_config({}, {"--loss_type", "sigmoid_norm", "--beta", "0.2"}, "trl-dpo").config.dpo.loss,
            PairLoss::sigmoid_norm);
  EXPECT_ERROR(load_config({}, {"--loss_type", "nll"}, "trl-dpo"), ErrorKind::config, "it is a loss of sft");
}

TEST(Trl, ReadsTheFilesOfTheScripts) {
  const TemporaryFolder folder;
  write_text(
      folder / "sft.yaml",
      "model_name_or_path: m\ndataset_name: d\nlearning_rate: 2.0e-4\nreport_to:\n- wandb\nlora_target_modules:\n"
      "  - q_proj\n  - v_proj\nuse_peft: true\neval_strategy: no\nmax_length: null\n");
  const LoadedConfig loaded = load_config({folder / "sft.yaml"}, {"--learning_rate", "1e-4"});
  EXPECT_EQ(loaded.dialect, "trl-sft");
  EXPECT_EQ(loaded.config.optim.learning_rate, 1e-4);
  EXPECT_EQ(loaded.config.lora.targets, "q_proj,v_proj");
  EXPECT_FALSE(loaded.given("batch.sequence"));
}

TEST(Trl, IsSpokenWhereAWordIsItsOwn) {
  const auto knows = [](const std::string& name) { return name == "--learning-rate"; };
  EXPECT_TRUE(speaks_trl({"--learning_rate", "1", "--warmup_ratio=0.1"}, knows));
  EXPECT_FALSE(speaks_trl({"--learning_rate", "1", "--optim.clip=1"}, knows));
}

}  // namespace
}  // namespace trireme
