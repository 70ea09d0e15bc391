// A run that goes on where GPT-NeoX stopped, and what comes out of it again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
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
  static constexpr const char* kTrain = "train neox.yml --data.dir . --launch.threads 1 ";
};

TEST_F(NeoxRun, GoesOnWithIterationSamplesAndRate) {
  const Outcome first = done(kTrain + std::string("--run.steps 8"));
  EXPECT_THAT(first.output, HasSubstr("RESUMING from ckpt/global_step5: 5 steps and 30 samples are done"));
  EXPECT_THAT(first.output, HasSubstr("ckpt/global_step5: its loss scale of 4096 belongs to fp16"));
  EXPECT_THAT(first.output, HasSubstr("does not say which data it was trained on: sample 30 of data.train comes next"));
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
              HasSubstr("load is ckpt, NeoX's own checkpoints; the run goes on from its newer snapshots in"));
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

TEST_F(NeoxRun, WithoutOptimizerStateOnlyTheWeightsAreTaken) {
  done("export --model ckpt --output weights --format neox --tensor 2 --pipeline 2");
  const Outcome outcome = done(
      "train --checkpoint.resume weights --data.dir . --run.dir new --run.steps 1 "
      "--batch.global 6 --evaluation.batches 1 --launch.threads 1");
  EXPECT_THAT(outcome.output, HasSubstr("weights/global_step5 holds weights and no optimizer state"));
  EXPECT_THAT(outcome.output, HasSubstr("only the weights are taken: the run begins at step 0, with moments of zero; "
                                        "its own 5 steps do not count"));
  EXPECT_THAT(outcome.output, HasSubstr("step 1/1"));
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
  EXPECT_THAT(outcome.output, testing::ContainsRegex("model.inner-width .* +16 +32 +not possible: another model"));
}

TEST_F(NeoxRun, ExportsForNeoxAndTakesItBack) {
  done("export --model ckpt --output hf");
  done("export --model hf --output neox --format neox --tensor 2 --pipeline 0 --dtype f32");
  done("export --model neox --output back");
  EXPECT_TRUE(read_text(path("back/model.safetensors")) == read_text(path("hf/model.safetensors")));
  EXPECT_THAT(here("export --model hf --output x --tensor 2").output,
              HasSubstr("--tensor belongs to --format neox; a Hugging Face folder is not cut"));
  done("export --model ckpt --output cut --vocabulary 10");
  EXPECT_THAT(read_text(path("cut/config.json")), HasSubstr("\"vocab_size\": 10"));
  const Outcome more = here("export --model ckpt --output more --vocabulary 13");
  EXPECT_EQ(more.code, 2);
  EXPECT_THAT(more.output, HasSubstr("--vocabulary is 13, the model has 12 ids; they can be cut, not added"));
}

}  // namespace
}  // namespace trireme
