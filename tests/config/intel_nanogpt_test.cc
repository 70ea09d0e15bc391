#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "config/dialect.h"
#include "config/load.h"
#include "config/validate.h"
#include "config/yaml_reader.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kFile = R"(data_dir: ./data/openwebtext
block_size: 1024
optimizer_config:
  learning_rate: 6e-4
  weight_decay: 0.1
  beta1: 0.9
  beta2: 0.95
trainer_config:
  device: cpu
  mixed_precision: bf16
  eval_interval: 5
  log_interval: 1
  eval_iters: 2
  eval_only: False
  batch_size: 32
  max_iters: 10
  model_path: ckpt.pt
  snapshot_path: snapshot.pt
  gradient_accumulation_steps: 2
  grad_clip: 1.0
  decay_lr: True
  warmup_iters: 2
  lr_decay_iters: 10
  max_lr: 6e-4
  min_lr: 6e-5
)";

class IntelNanogpt : public testing::Test {
 protected:
  IntelNanogpt() { write_text(file_, kFile); }
  /// The stock file with flags after `--model.init gpt2`.
  LoadedConfig load(std::vector<std::string> flags = {}) const {
    flags.insert(flags.begin(), "--model.init=gpt2");
    return load_config({file_}, flags);
  }

  TemporaryFolder folder_;
  std::string file_ = folder_ / "intel.yaml";
};

TEST_F(IntelNanogpt, KnowsEveryKeyOfTheGuideAndNoOther) {
  const std::vector<Setting> settings = parse_yaml(kFile, "intel.yaml", 0);
  for (const Setting& setting : settings) EXPECT_NE(kIntelNanogpt.find(setting.key), nullptr) << setting.key;
  const auto hydras = std::ranges::count_if(
      kIntelNanogpt.keys, [](const DialectKey& key) { return std::string_view(key.name).starts_with("hydra."); });
  EXPECT_EQ(settings.size() + static_cast<size_t>(hydras), kIntelNanogpt.keys.size());
}

TEST_F(IntelNanogpt, TakesHydrasWords) {
  const LoadedConfig loaded = load({"hydra.run.dir=logs", "hydra.job.chdir=False", "++trainer_config.max_iters=7"});
  EXPECT_EQ(loaded.config.run.steps, 7);
  EXPECT_EQ(loaded.config.run.dir, "snapshot") << "hydra.run.dir is where Hydra keeps its own logs";
  EXPECT_THAT(loaded.notes, testing::Contains(HasSubstr("hydra.run.dir has no effect here: Hydra's logs and copies")));
  EXPECT_ERROR(load({"hydra.job.chdir=True"}), ErrorKind::config,
               "hydra.job.chdir is True: paths are relative to the working directory; set it to False");
  for (const char* word : {"hydra.mode=MULTIRUN", "hydra.sweep.dir=x", "hydra.sweeper.params=x"})
    EXPECT_ERROR(load({word}), ErrorKind::config,
                 "start a separate run for each set of values: sweeps are not supported");
  for (const char* word : {"--config-name", "-cn", "--config-path", "-cp", "--config-dir", "-cd"})
    EXPECT_ERROR(split_words({word, "cfg"}), ErrorKind::config, "instead: the file's name alone: `trireme train");
  for (const char* word : {"--multirun", "-m"})
    EXPECT_ERROR(split_words({word}), ErrorKind::config,
                 "instead: a separate run for each set of values: sweeps are not supported");
  EXPECT_ERROR(split_words({"--cfg", "job"}), ErrorKind::config, "instead: `trireme config show");
}

TEST_F(IntelNanogpt, TakesANullSnapshotPathAsTheDefault) {
  EXPECT_EQ(load({"trainer_config.snapshot_path=null"}).config.run.dir, "snapshot");
  std::string text = kFile;
  text.replace(text.find("snapshot.pt"), 11, "null");
  write_text(file_, text);
  EXPECT_EQ(load().config.run.dir, "snapshot");
}

TEST_F(IntelNanogpt, IsRecognisedAndTranslated) {
  const LoadedConfig loaded = load();
  const Config& config = loaded.config;
  EXPECT_EQ(loaded.dialect, "intel-nanogpt");
  EXPECT_EQ(config.data.dir, "./data/openwebtext");
  EXPECT_EQ(config.model.init, "gpt2");
  EXPECT_EQ(config.model.dropout, 0);
  EXPECT_FALSE(loaded.given("model.context")) << "the folder says how long it is";
  EXPECT_EQ(config.batch.sequence, 1024);
  EXPECT_EQ(config.batch.micro, 32);
  EXPECT_EQ(config.batch.per_rank, 64);
  EXPECT_EQ(config.optim.weight_decay, 0.1);
  EXPECT_EQ(config.optim.beta1, 0.9);
  EXPECT_EQ(config.optim.beta2, 0.95);
  EXPECT_EQ(config.optim.epsilon, 1e-8);
  EXPECT_EQ(config.optim.clip, 1.0);
  EXPECT_EQ(config.optim.schedule, RateCourse::cosine);
  EXPECT_EQ(config.optim.warmup_steps, 2);
  EXPECT_EQ(config.optim.decay_steps, 10);
  EXPECT_EQ(config.optim.learning_rate, 6e-4);
  EXPECT_EQ(config.optim.min_learning_rate, 6e-5);
  EXPECT_EQ(config.precision.dtype, DType::bf16);
  EXPECT_EQ(config.run.steps, 10);
  EXPECT_EQ(config.run.dir, "snapshot");
  EXPECT_EQ(config.checkpoint.best_link, "ckpt");
  EXPECT_EQ(config.checkpoint.every, 5);
  EXPECT_EQ(config.checkpoint.resume, "auto");
  EXPECT_EQ(config.evaluation.every, 5);
  EXPECT_FALSE(config.evaluation.only);
  EXPECT_EQ(config.log.every, 1);
  EXPECT_EQ(loaded.where("batch.per-rank"), "batch.per-rank (" + file_ + ":15)");
}

TEST_F(IntelNanogpt, PassesEveryChangedValueOn) {
  const Config config = load({"data_dir=d",
                              "block_size=512",
                              "optimizer_config.weight_decay=0.2",
                              "optimizer_config.beta1=0.8",
                              "optimizer_config.beta2=0.9",
                              "trainer_config.mixed_precision=fp32",
                              "trainer_config.eval_interval=7",
                              "trainer_config.log_interval=3",
                              "trainer_config.eval_only=true",
                              "trainer_config.batch_size=6",
                              "trainer_config.max_iters=11",
                              "trainer_config.model_path=out/best.pt",
                              "trainer_config.snapshot_path=out/last.pt",
                              "trainer_config.gradient_accumulation_steps=5",
                              "trainer_config.grad_clip=0.5",
                              "trainer_config.warmup_iters=1",
                              "trainer_config.lr_decay_iters=9",
                              "trainer_config.max_lr=1e-3",
                              "trainer_config.min_lr=1e-4",
                              "trainer_config.eval_iters=11"})
                            .config;
  EXPECT_EQ(config.data.dir, "d");
  EXPECT_EQ(config.batch.sequence, 512);
  EXPECT_EQ(config.optim.weight_decay, 0.2);
  EXPECT_EQ(config.optim.beta1, 0.8);
  EXPECT_EQ(config.optim.beta2, 0.9);
  EXPECT_EQ(config.precision.dtype, DType::f32);
  EXPECT_EQ(config.evaluation.every, 7);
  EXPECT_EQ(config.checkpoint.every, 7);
  EXPECT_EQ(config.evaluation.batches, 3) << "11 x 6 sequences in batches of 30";
  EXPECT_TRUE(config.evaluation.only);
  EXPECT_EQ(config.log.every, 3);
  EXPECT_EQ(config.batch.micro, 6);
  EXPECT_EQ(config.batch.per_rank, 30);
  EXPECT_EQ(config.run.steps, 11);
  EXPECT_EQ(config.run.dir, "out/last");
  EXPECT_EQ(config.checkpoint.best_link, "out/best");
  EXPECT_EQ(config.optim.clip, 0.5);
  EXPECT_EQ(config.optim.warmup_steps, 1);
  EXPECT_EQ(config.optim.decay_steps, 9);
  EXPECT_EQ(config.optim.learning_rate, 1e-3);
  EXPECT_EQ(config.optim.min_learning_rate, 1e-4);
}

TEST_F(IntelNanogpt, MakesTheGlobalBatchOfBatchSizeAccumulationAndRanks) {
  const BatchPlan plan = plan_batch(load(), 3);
  EXPECT_EQ(plan.global, 192);
  EXPECT_EQ(plan.micro, 32);
  EXPECT_EQ(plan.accumulation, 2);
  EXPECT_EQ(plan_batch(load(), 2, 192).accumulation, 3) << "kept when the run is resumed on fewer ranks";
}

TEST_F(IntelNanogpt, SaysWhatTheGuidesScriptComputesOtherwise) {
  EXPECT_THAT(load().notes, testing::Contains("trainer_config.gradient_accumulation_steps: a step accumulates 2 x 32 "
                                              "samples per rank, so 10 steps take 640; the guide's script counts each "
                                              "micro-batch as an iteration and takes 320"));
  EXPECT_THAT(load().notes, testing::Contains(HasSubstr("GELU is the one that the model's config.json names")));
  const auto one = load({"trainer_config.gradient_accumulation_steps=1", "--model.init", "scratch"}).notes;
  EXPECT_THAT(one, testing::Not(testing::Contains(HasSubstr("accumulates"))));
  EXPECT_THAT(one, testing::Not(testing::Contains(HasSubstr("GELU"))));
}

TEST_F(IntelNanogpt, SaysWhatHasNoEffect) {
  EXPECT_THAT(load().notes,
              testing::Contains(HasSubstr("intel.yaml:4: optimizer_config.learning_rate has no effect here: the "
                                          "schedule sets the rate of every step")));
}

TEST_F(IntelNanogpt, AsksForTheWeightsToStartFrom) {
  EXPECT_ERROR(load_config({file_}, {}), ErrorKind::config, "add --model.init DIR");
  EXPECT_ERROR(load_config({file_}, {"--model.init="}), ErrorKind::config, "or --model.init scratch");
  write_text(folder_ / "init.yaml", "model: {init: gpt2}\n");
  EXPECT_EQ(load_config({file_, folder_ / "init.yaml"}, {}).config.model.init, "gpt2");
}

TEST_F(IntelNanogpt, TakesItsContextAndGpt2sVocabularyForANewModel) {
  EXPECT_EQ(load_config({file_}, {"--model.init=scratch", "block_size=256"}).config.model.context, 256);
  write_text(folder_ / "train.bin", "ab");
  const std::string data_dir = "data_dir=" + folder_.path();
  EXPECT_EQ(load_config({file_}, {"--model.init=scratch", data_dir}).config.model.vocabulary, 50257);
  write_text(folder_ / "train.bin.json", "{}");
  EXPECT_EQ(load_config({file_}, {"--model.init=scratch", data_dir}).config.model.vocabulary, 0);
}

TEST_F(IntelNanogpt, KeepsTheRateConstantWithoutDecay) {
  const Config config = load({"trainer_config.decay_lr=False"}).config;
  EXPECT_EQ(config.optim.schedule, RateCourse::constant);
  EXPECT_EQ(config.optim.warmup_steps, 0);
  EXPECT_EQ(config.optim.learning_rate, 6e-4);
}

TEST_F(IntelNanogpt, LetsNativeFlagsWin) {
  const Config config = load({"trainer_config.max_iters=20", "--run.steps", "30", "--batch.global", "64"}).config;
  EXPECT_EQ(config.run.steps, 30);
  EXPECT_EQ(config.batch.global, 64);
  EXPECT_EQ(config.batch.per_rank, 0);
  EXPECT_EQ(load({"--trainer_config.max_iters", "20"}).config.run.steps, 20);
}

TEST_F(IntelNanogpt, RefusesWhatCannotBeHonoured) {
  EXPECT_ERROR(
      load({"trainer_config.mixed_precision=fp16"}), ErrorKind::config,
      "trainer_config.mixed_precision is \"fp16\": training in fp16 is not supported on CPUs; set bf16 or fp32");
  EXPECT_ERROR(load({"trainer_config.mixed_precision=fp8"}), ErrorKind::config, "expected bf16 or fp32");
  EXPECT_EQ(load({"trainer_config.device=cuda"}).config.run.device, DeviceChoice::cuda);
  EXPECT_EQ(load({}).config.run.device, DeviceChoice::cpu);
  EXPECT_ERROR(load({"trainer_config.device=xpu"}), ErrorKind::config,
               "trainer_config.device is \"xpu\": expected cpu, cuda or cuda:0");
  for (const char* key :
       {"batch_size", "gradient_accumulation_steps", "eval_iters", "eval_interval", "lr_decay_iters"}) {
    EXPECT_ERROR(load({std::string("trainer_config.") + key + "=0"}), ErrorKind::config,
                 std::string("trainer_config.") + key + " is 0: the smallest possible value is 1");
  }
  EXPECT_ERROR(load({"trainer_config.batch_size=9999999999"}), ErrorKind::config, "the largest possible value is");
}

TEST_F(IntelNanogpt, ReportsAllProblemsTogether) {
  EXPECT_ERROR(
      load({"trainer_config.mixed_precision=fp16", "trainer_config.device=xpu", "trainer_config.batch_size=0",
            "trainer_config.model_path=http://a/b.pt"}),
      ErrorKind::config,
      "4 settings cannot be used here:\n  trainer_config.device is \"xpu\": expected cpu, cuda or cuda:0\n  "
      "trainer_config.mixed_precision is \"fp16\": training in fp16 is not supported on CPUs; set bf16 or fp32\n"
      "  trainer_config.batch_size is 0: the smallest possible value is 1\n  trainer_config.model_path is "
      "\"http://a/b.pt\": only local and mounted paths are supported; name a folder");
}

TEST_F(IntelNanogpt, RefusesUnknownKeysAndWrongTypes) {
  EXPECT_ERROR(load({"trainer_config.max_iter=3"}), ErrorKind::config, "did you mean \"trainer_config.max_iters\"?");
  write_text(file_, std::string(kFile) + "  warmup_iter: 3\n");
  EXPECT_ERROR(load(), ErrorKind::config,
               "intel.yaml:26: dialect intel-nanogpt has no key \"trainer_config.warmup_iter\"; did you mean "
               "\"trainer_config.warmup_iters\"?");
  EXPECT_ERROR(load_config({}, {"--trainer_config.max_iters=ten"}, "intel-nanogpt"), ErrorKind::config,
               "--trainer_config.max_iters is \"ten\", expected a whole number");
}

TEST_F(IntelNanogpt, LeavesTorchFilesAlone) {
  const std::string torch = folder_ / "snapshot.pt";
  write_text(torch, "torch");
  const LoadedConfig loaded = load({"trainer_config.snapshot_path=" + torch});
  EXPECT_EQ(loaded.config.run.dir, folder_ / "snapshot");
  EXPECT_THAT(loaded.notes.back(), HasSubstr("is a torch file, which is neither read nor overwritten"));
  write_text(folder_ / "ckpt", "torch");
  EXPECT_ERROR(load({"trainer_config.model_path=" + (folder_ / "ckpt")}), ErrorKind::config,
               "ckpt is an existing file, which is never overwritten; choose another name");
}

TEST_F(IntelNanogpt, RefusesPathsThatNameNoFolder) {
  EXPECT_ERROR(load({"trainer_config.model_path=s3://bucket/ckpt.pt"}), ErrorKind::config,
               "only local and mounted paths are supported");
  EXPECT_ERROR(load({"trainer_config.model_path=out/"}), ErrorKind::config, "expected a file name");
  EXPECT_ERROR(load({"trainer_config.model_path=snapshot.bin"}), ErrorKind::config,
               "without suffix it names the same folder as trainer_config.snapshot_path");
}

}  // namespace
}  // namespace trireme
