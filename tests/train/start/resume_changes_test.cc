#include "train/start/resume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

LoadedConfig started(const std::vector<std::string>& flags) { return load_config({}, flags); }

TEST(ChangedOptions, AreSaidOneByOneWithTheirOrigin) {
  const LoadedConfig now =
      started({"--optim.learning-rate", "1e-3", "--optim.beta2", "0.99", "--optim.clip", "0", "--optim.weight-decay",
               "0.2", "--model.dropout", "0.1", "--precision.dtype", "bf16", "--comm.wire", "f32"});
  EXPECT_THAT(
      changed_options(now, Config()),
      ElementsAre("model.dropout changes with this start from 0 to 0.1 (flag --model.dropout)",
                  "optim.learning-rate changes with this start from 0.0006 to 0.001 (flag --optim.learning-rate)",
                  "optim.beta2 changes with this start from 0.95 to 0.99 (flag --optim.beta2)",
                  "optim.weight-decay changes with this start from 0.1 to 0.2 (flag --optim.weight-decay)",
                  "optim.clip changes with this start from 1 to 0 (flag --optim.clip)",
                  "precision.dtype changes with this start from f32 to bf16 (flag --precision.dtype)",
                  "comm.wire changes with this start from bf16 to f32 (flag --comm.wire)"));
}

// A snapshot records the dropouts that follow model.dropout with their values.
TEST(ChangedOptions, ADropoutThatFollowsAnotherIsSaidOnce) {
  Config then;
  then.model.embedding_dropout = then.model.attention_dropout = 0;
  EXPECT_THAT(changed_options(started({}), then), IsEmpty());
  EXPECT_THAT(changed_options(started({"--model.dropout", "0.1"}), then), testing::SizeIs(1));
  EXPECT_THAT(changed_options(started({"--model.attention-dropout", "0.1"}), then),
              ElementsAre("model.attention-dropout changes with this start from -1 to 0.1 (flag "
                          "--model.attention-dropout)"));
}

// A flag that the first start had and this one lacks is the usual mistake.
TEST(ChangedOptions, ADefaultThatReplacesAValueIsSaidToo) {
  const Config then = started({"--optim.learning-rate", "1e-3"}).config;
  EXPECT_THAT(changed_options(started({}), then),
              ElementsAre("optim.learning-rate changes with this start from 0.001 to 0.0006 (default)"));
}

TEST(ChangedOptions, WhatChangesNoResultAndWhatAResumeComparesItselfIsNotSaid) {
  const LoadedConfig now = started(
      {"--log.every",      "3", "--run.dir",        "elsewhere", "--checkpoint.every", "5",  "--mesh.tensor", "2",
       "--launch.threads", "3", "--data.dir",       "moved",     "--batch.global",     "64", "--run.seed",    "7",
       "--model.layers",   "3", "--comm.bucket-mb", "1"});
  EXPECT_THAT(changed_options(now, Config()), IsEmpty());
}

TEST(ChangedDecay, AStretchedScheduleIsSaidWithBothRates) {
  const Config then = started({"--run.steps", "100"}).config;
  const auto longer = changed_decay(started({"--run.steps", "200"}).config, then, 100);
  ASSERT_TRUE(longer);
  EXPECT_THAT(*longer, AllOf(HasSubstr("ends at step 200 instead of 100, so step 101 trains with 0.00033 instead of "
                                       "6e-05: a rate that had fallen rises again"),
                             HasSubstr("--optim.decay-steps 100 keeps the snapshot's schedule")));
  const auto during = changed_decay(started({"--run.steps", "200"}).config, then, 50);
  ASSERT_TRUE(during);
  EXPECT_THAT(*during, AllOf(HasSubstr("step 51 trains with"), testing::Not(HasSubstr("rises again"))));
}

TEST(ChangedDecay, AnotherLengthOfTheRunAloneChangesNoRate) {
  const Config then = started({"--run.steps", "100", "--optim.decay-steps", "100"}).config;
  EXPECT_FALSE(changed_decay(started({"--run.steps", "200", "--optim.decay-steps", "100"}).config, then, 100));
  EXPECT_FALSE(changed_decay(started({"--run.steps", "200", "--optim.schedule", "constant"}).config,
                             started({"--run.steps", "100", "--optim.schedule", "constant"}).config, 100));
}

}  // namespace
}  // namespace trireme
