// A run that resumes where GPT-NeoX stopped, and its export.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "checkpoint/checkpoint_folder.h"
#include "report/run_log.h"
#include "tests/runs/training_fixture.h"
#include "tests/support/paths.h"

namespace trireme {
namespace {
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

class NeoxRun : public TrainingFixture {
 protected:
  NeoxRun() {
    fs::copy(fs::path(source_dir()) / "tests/golden/neox/zero", path("ckpt"), fs::copy_options::recursive);
    for (const char* name : {"train.bin", "val.bin"}) {  // ids below the model's vocabulary of 12
      std::string bytes;
      for (int i = 0; i < 2000; ++i) bytes += {static_cast<char>(i * i % 11), '\0'};
      write_text(path(name), bytes);
      fs::remove(path(std::string(name) + ".json"));
    }
    write_text(path("neox.yml"), R"({
  "pipe-parallel-size": 1, "model-parallel-size": 1, "num-layers": 2, "hidden-size": 8, "num-attention-heads": 2,
  "intermediate-size": 16, "seq-length": 6, "max-position-embeddings": 6, "pos-emb": "rotary", "rotary-pct": 0.5,
  "no-weight-tying": True, "gpt-j-residual": True, "bias-gelu-fusion": True,
  "optimizer": {"type": "Adam", "params": {"lr": 0.001, "betas": [0.9, 0.95], "eps": 1.0e-8}},
  "min-lr": 0.0001, "lr-decay-style": "cosine", "warmup": 0.1, "train-micro-batch-size-per-gpu": 6, "train-iters": 20,
  "lr-decay-iters": 20,
  "log-interval": 1, "eval-interval": 100, "eval-iters": 1, "save": "out", "load": "ckpt"
})");
  }
  Outcome here(const std::string& arguments) const {
    return run({"sh", "-c", fmt::format("cd {} && exec {} {}", path("."), trireme_path(), arguments)});
  }
  Outcome done(const std::string& arguments) const {
    const Outcome outcome = here(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    return outcome;
  }
  static constexpr const char* kTrain = "train neox.yml --data.dir . --launch.threads 1 --log.peak-tflops 1 ";
};

TEST_F(NeoxRun, ResumesIterationSamplesAndRate) {
  const Outcome first = done(kTrain + std::string("--run.steps 8"));
  EXPECT_THAT(first.output, HasSubstr("RESUMING from ckpt/global_step5: 5 steps and 30 samples are done"));
  EXPECT_THAT(first.output,
              HasSubstr("ckpt/global_step5: its loss scale of 4096 is used only with precision.dtype f16"));
  EXPECT_THAT(first.output, HasSubstr("does not record its training data: the next sample is number 30 of data.train"));
  const auto steps = read_run_log(path("out/metrics.jsonl")).steps;
  ASSERT_EQ(steps.size(), 3);
  EXPECT_EQ(steps[0].step, 6);
  EXPECT_EQ(steps[0].samples, 36);
  EXPECT_EQ(steps[0].skipped, 1);
  // NeoX's cosine after the 4 updates of 5 steps, W = 0.1 x 20.
  for (size_t i = 0; i < steps.size(); ++i) {
    const double n = 4 + static_cast<double>(i), rate = 1e-4 + 9e-4 / 2 * (std::cos(M_PI * (n - 2) / 18) + 1);
    EXPECT_DOUBLE_EQ(steps[i].learning_rate, rate) << steps[i].step;
  }
  const Outcome again = done(kTrain + std::string("--run.steps 9"));
  EXPECT_THAT(again.output,
              HasSubstr("load is ckpt, which has NeoX's own checkpoints; resuming from the run's newer snapshots in"));
  EXPECT_THAT(again.output, HasSubstr("RESUMING from out/step-00000008: 8 steps and 48 samples are done"));
}

TEST_F(NeoxRun, SavesAndResumesAsOneRun) {
  done(kTrain + std::string("--run.steps 7 --run.dir half"));
  done(kTrain + std::string("--run.steps 9 --run.dir half"));
  done(kTrain + std::string("--run.steps 9 --run.dir whole"));
  const auto weights = [&](const std::string& name) {
    done("export --model " + name + " --output " + name + "-hf");
    return read_text(path(name + "-hf/model.safetensors"));
  };
  EXPECT_TRUE(weights("half") == weights("whole"));
}

TEST_F(NeoxRun, RanksThatShareItsOptimizersStateTrainAsThoseThatHaveAllOfIt) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  for (const int ranks : {2, 4}) {
    std::map<int64_t, double> want;
    for (const std::string shard : {"none", "optimizer", "gradients", "parameters"}) {
      const std::string name = fmt::format("{}-{}", shard, ranks);
      const Outcome outcome =
          run(mpirun_command(ranks, {"train",   "--checkpoint.resume", path("ckpt"), "--data.dir",
                                     path("."), "--run.dir",           path(name),   "--run.steps",
                                     "12",      "--batch.global",      "8",          "--checkpoint.allow-other-batch",
                                     "true",    "--comm.wire",         "f32",        "--evaluation.batches",
                                     "1",       "--log.every",         "1",          "--launch.threads",
                                     "1",       "--optim.shard",       shard,        "--log.peak-tflops",
                                     "1"}));
      ASSERT_EQ(outcome.code, 0) << outcome.output;
      if (want.empty()) want = losses(name);
      EXPECT_EQ(losses(name), want) << name;
      EXPECT_EQ(want.size(), 7);
      EXPECT_EQ(weights(name), weights(fmt::format("none-{}", ranks))) << name;
      EXPECT_EQ(open_checkpoint(path(name)).facts.parameter_hash,
                open_checkpoint(path(fmt::format("none-{}", ranks))).facts.parameter_hash);
    }
  }
}

/// A run that was resumed from another folder has no own snapshot yet.
TEST_F(NeoxRun, NamesTheResumedSnapshotIfItHasNoOther) {
  const Outcome outcome = here(kTrain + std::string("--run.steps 12 --optim.learning-rate 100 --optim.warmup-steps 0"));
  EXPECT_NE(outcome.code, 0);
  EXPECT_THAT(outcome.output, Not(HasSubstr("out/step-00000005"))) << "the folder does not exist";
  EXPECT_THAT(outcome.output, HasSubstr("the newest snapshot is ckpt/global_step5"));
}

TEST_F(NeoxRun, LoadsTheIterationThatIsAskedFor) {
  fs::create_directories(path("more"));
  fs::copy(path("ckpt/global_step5"), path("more/global_step5"), fs::copy_options::recursive);
  fs::create_directories(path("more/global_step9"));
  write_text(path("more/latest"), "global_step9\n");
  const std::string train = kTrain + std::string("--run.steps 6 --load more ");
  EXPECT_THAT(done(train + "--iteration 5").output,
              HasSubstr("RESUMING from more/global_step5: 5 steps and 30 samples are done"));
  const Outcome missing = here(train + "--iteration 7 --save new");
  EXPECT_EQ(missing.code, 1) << missing.output;
  EXPECT_THAT(missing.output, HasSubstr("no checkpoint at more/global_step7: the folder does not exist; more holds "
                                        "global_step5, global_step9"));
  std::string text = read_text(path("neox.yml"));
  text.replace(text.find("\"load\": \"ckpt\""), 14, "\"load\": \"more\", \"iteration\": 5");
  write_text(path("file.yml"), text);
  EXPECT_THAT(done("train file.yml --data.dir . --launch.threads 1 --run.steps 6 --save other").output,
              HasSubstr("RESUMING from more/global_step5"));
  EXPECT_THAT(done("train file.yml --data.dir . --launch.threads 1 --run.steps 7 --save other").output,
              HasSubstr("RESUMING from other/step-00000006"))
      << "the same command later";
  const Outcome alone = here("train --dialect gpt-neox neox.yml --data.dir . --load= --iteration 5");
  EXPECT_EQ(alone.code, 2) << alone.output;
  EXPECT_THAT(alone.output, HasSubstr("--iteration is 5: load is missing, the folder of that step; add --load FOLDER"));
}

TEST_F(NeoxRun, LoadsTheIterationOfARunOfOurs) {
  done(kTrain + std::string("--run.steps 6"));
  done(kTrain + std::string("--run.steps 7"));
  const std::string train = kTrain + std::string("--run.steps 8 --load out ");
  const Outcome back = done(train + "--iteration 6");
  EXPECT_THAT(back.output, HasSubstr("RESUMING from out/step-00000006: 6 steps and 36 samples are done"));
  EXPECT_THAT(
      back.output,
      HasSubstr(
          "the run returns to step 6 and sets 1 later snapshot of out aside until it has passed that step again"));
  const Outcome missing = here(train + "--iteration 3");
  EXPECT_EQ(missing.code, 1) << missing.output;
  EXPECT_THAT(missing.output, HasSubstr("no checkpoint at out/step-00000003: the folder does not exist; out holds "
                                        "step-00000006, step-00000007, step-00000008"));
}

TEST_F(NeoxRun, AFolderOfStepsWithoutLatestIsTakenByItsLargest) {
  fs::create_directories(path("steps"));
  fs::copy(path("ckpt/global_step5"), path("steps/global_step5"), fs::copy_options::recursive);
  fs::copy(path("ckpt/global_step5"), path("steps/global_step3"), fs::copy_options::recursive);
  const std::string line = "steps has no `latest`; using its largest step, global_step5\n";
  EXPECT_THAT(done("export --model steps --output hf").output, HasSubstr(line));
  done("export --model ckpt --output same");
  EXPECT_TRUE(read_text(path("hf/model.safetensors")) == read_text(path("same/model.safetensors")));
  EXPECT_THAT(done("checkpoint show steps").output, HasSubstr("checkpoint  steps/global_step5\n"));
  EXPECT_THAT(done("export --model steps/global_step5 --output one").output, Not(HasSubstr("`latest`")));
  EXPECT_THAT(done(kTrain + std::string("--run.steps 6 --load steps")).output,
              HasSubstr("RESUMING from steps/global_step5: 5 steps"));
  fs::create_directory(path("steps/global_step8"));
  const Outcome empty = here("export --model steps --output other");
  EXPECT_EQ(empty.code, 1) << empty.output;
  EXPECT_THAT(empty.output, HasSubstr("steps has no `latest`, and the largest step there, steps/global_step8, has no "
                                      "mp_rank or layer files; name another step's folder"));
}

TEST_F(NeoxRun, WithoutOptimizerStateOnlyTheWeightsAreTaken) {
  done("export --model ckpt --output weights --format neox --tensor 2 --pipeline 2");
  const Outcome outcome = done(
      "train --checkpoint.resume weights --data.dir . --run.dir new --run.steps 1 "
      "--batch.global 6 --evaluation.batches 1 --launch.threads 1");
  EXPECT_THAT(outcome.output, HasSubstr("weights/global_step5 holds weights but no optimizer state"));
  EXPECT_THAT(outcome.output, HasSubstr("only the weights are loaded: the run starts at step 0 with zero moments, "
                                        "without the 5 steps of the checkpoint"));
  EXPECT_THAT(outcome.output, HasSubstr("step 1/1"));
}

/// `file` with one byte changed of its first tensor.
void damage(const std::string& file) {
  std::string bytes = read_text(file);
  const size_t header = bytes.rfind("PK\x03\x04", bytes.find("/data/0"));
  const auto number = [&](size_t at) {
    return static_cast<uint8_t>(bytes[header + at]) + 256U * static_cast<uint8_t>(bytes[header + at + 1]);
  };
  bytes[header + 30 + number(26) + number(28)] ^= 1;
  fs::remove(file);
  write_text(file, bytes);
}

TEST_F(NeoxRun, TheCheckpointCommandListsAndVerifiesThem) {
  done("export --model ckpt --output weights --format neox --tensor 2 --pipeline 2");
  EXPECT_THAT(done("checkpoint list ckpt").output,
              testing::ContainsRegex("\nglobal_step5 +30 +4 +- +latest of GPT-NeoX\n"));
  EXPECT_THAT(done("checkpoint list ckpt/global_step5").output, testing::ContainsRegex("- +of GPT-NeoX\n"));
  EXPECT_THAT(done("checkpoint list weights").output, HasSubstr("latest of GPT-NeoX, weights only\n"));
  EXPECT_EQ(done("checkpoint verify ckpt").output, "ckpt/global_step5: good\n");
  EXPECT_EQ(done("checkpoint verify ckpt/global_step5").output, "ckpt/global_step5: good\n");

  damage(path("ckpt/global_step5/layer_05-model_01-model_states.pt"));
  damage(path("ckpt/global_step5/zero_pp_rank_1_mp_rank_02_optim_states.pt"));
  fs::resize_file(path("ckpt/global_step5/layer_02-model_00-model_states.pt"), 100);
  const Outcome bad = here("checkpoint verify ckpt");
  EXPECT_EQ(bad.code, 1) << bad.output;
  EXPECT_THAT(bad.output, HasSubstr("ckpt/global_step5: bad\n  "));
  EXPECT_THAT(bad.output, HasSubstr("layer_02-model_00-model_states.pt: truncated"));
  for (const char* file : {"layer_05-model_01-model_states.pt", "zero_pp_rank_1_mp_rank_02_optim_states.pt"})
    EXPECT_THAT(bad.output, testing::ContainsRegex(std::string("  ckpt/global_step5/") + file +
                                                   ": the [0-9]+ bytes of [a-z0-9_/-]+ are damaged: their CRC-32 is "
                                                   "[0-9a-f]+, but the file records [0-9a-f]+; copy the file again\n"));
  EXPECT_THAT(done("checkpoint list ckpt").output,
              testing::ContainsRegex("\nglobal_step5 +bad: ckpt/global_step5/layer_02"));
}

TEST_F(NeoxRun, TheCheckpointCommandNamesADanglingPointerAndDeletesNothing) {
  write_text(path("ckpt/latest"), "global_step6\n");
  const Outcome bad = here("checkpoint verify ckpt");
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.output, HasSubstr("ckpt/global_step5: good\nckpt/latest: bad\n  ckpt/latest names global_step6, but "
                                    "this folder does not exist beside it"));
  EXPECT_THAT(done("checkpoint list ckpt").output, testing::ContainsRegex("- +of GPT-NeoX\n"));
  const Outcome prune = here("checkpoint prune ckpt --keep 1");
  EXPECT_EQ(prune.code, 2) << prune.output;
  EXPECT_THAT(prune.output, HasSubstr("ckpt has checkpoints of GPT-NeoX, which Trireme never changes or deletes; "
                                      "delete global_step folders by hand"));
  EXPECT_FALSE(fs::exists(path("ckpt/lock")));
}

TEST_F(NeoxRun, IsAModelToStartFromWithItsWeightsOnly) {
  done("export --model ckpt --output hf");
  const auto trained = [&](const std::string& init) {
    const Outcome outcome = done("train --model.init " + init + " --data.dir . --run.dir " + init +
                                 "-new --run.steps 2 --batch.global 6 --evaluation.batches 1 --log.every 1 "
                                 "--evaluation.every 0 --launch.threads 1");
    EXPECT_THAT(outcome.output, HasSubstr("starting from the weights of " + init));
    EXPECT_THAT(outcome.output, Not(HasSubstr("RESUMING")));
    return read_run_log(path(init + "-new/metrics.jsonl")).steps;
  };
  const auto theirs = trained("ckpt"), plain = trained("hf");
  ASSERT_EQ(theirs.size(), 2);
  for (size_t i = 0; i < theirs.size(); ++i) {
    EXPECT_EQ(theirs[i].step, static_cast<int64_t>(i) + 1) << "the checkpoint's 5 steps are not counted";
    EXPECT_EQ(theirs[i].samples, 6 * (i + 1));
    EXPECT_EQ(theirs[i].loss, plain[i].loss) << "the second step has no moment of NeoX's";
  }
}

TEST_F(NeoxRun, FinetuneStartsFromTheWeightsAndResumesItsOwnSnapshots) {
  std::string text = read_text(path("neox.yml"));
  text.replace(text.find("\"load\": \"ckpt\""), 14, "\"load\": \"ckpt\", \"finetune\": true");
  write_text(path("tune.yml"), text);
  const std::string tune = "train tune.yml --data.dir . --launch.threads 1 --run.steps ";
  const Outcome first = done(tune + "1");
  EXPECT_THAT(first.output, HasSubstr("starting from the weights of ./ckpt/global_step5"));
  EXPECT_THAT(first.output, Not(HasSubstr("RESUMING")));
  EXPECT_THAT(done(tune + "2").output, HasSubstr("RESUMING from out/step-00000001: 1 step and 6 samples are done"));
  EXPECT_THAT(done(tune + "1 --run.dir earlier --iteration 5").output,
              HasSubstr("starting from the weights of ./ckpt/global_step5"));
  const Outcome missing = here(tune + "1 --run.dir other --load nowhere");
  EXPECT_EQ(missing.code, 1) << missing.output;
  EXPECT_THAT(missing.output, HasSubstr("./nowhere does not exist"));
}

TEST_F(NeoxRun, BadFilesEndItBeforeAnythingIsLoaded) {
  fs::resize_file(path("ckpt/global_step5/layer_05-model_01-model_states.pt"), 100);
  const Outcome outcome = here(kTrain);
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("layer_05-model_01-model_states.pt: truncated"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("RESUMING")));
}

TEST_F(NeoxRun, AnotherModelsConfigurationIsRefused) {
  const Outcome outcome = here(kTrain + std::string("--model.inner-width 32"));
  EXPECT_EQ(outcome.code, 2) << outcome.output;
  EXPECT_THAT(outcome.output, testing::ContainsRegex("model.inner-width .* +16 +32 +impossible: another model"));
}

TEST_F(NeoxRun, ExportsForNeoxAndTakesItBack) {
  done("export --model ckpt --output hf");
  done("export --model hf --output neox --format neox --tensor 2 --pipeline 0 --dtype f32");
  done("export --model neox --output back");
  EXPECT_TRUE(read_text(path("back/model.safetensors")) == read_text(path("hf/model.safetensors")));
  EXPECT_THAT(here("export --model hf --output x --tensor 2").output,
              HasSubstr("--tensor needs --format neox; a Hugging Face folder is not split"));
  done("export --model ckpt --output cut --vocabulary 10");
  EXPECT_THAT(read_text(path("cut/config.json")), HasSubstr("\"vocab_size\": 10"));
  const Outcome more = here("export --model ckpt --output more --vocabulary 13");
  EXPECT_EQ(more.code, 2);
  EXPECT_THAT(more.output,
              HasSubstr("--vocabulary is 13, but the model has 12 ids; ids can only be removed, not added"));
}

}  // namespace
}  // namespace trireme
