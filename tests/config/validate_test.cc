#include "config/validate.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace trireme {
namespace {

LoadedConfig flags(const std::vector<std::string>& words) { return load_config({}, words); }

TEST(Validate, RefusesHeadsThatDoNotDivideTheWidth) {
  EXPECT_ERROR(
      flags({"--model.heads=7"}), ErrorKind::config,
      "model.heads (flag --model.heads) is 7 and does not divide model.width (default), which is 768; heads that "
      "do: 2, 3, 4, 6, 8, 12, 16, 24");
}

TEST(Validate, RefusesAFloorAboveThePeak) {
  EXPECT_ERROR(
      flags({"--optim.learning-rate=1e-5"}), ErrorKind::config,
      "optim.min-learning-rate (default) is 6e-05, above optim.learning-rate (flag --optim.learning-rate), which "
      "is 1e-05");
  EXPECT_NO_THROW(flags({"--optim.learning-rate=1e-5", "--optim.schedule=constant"}));
}

TEST(Validate, RefusesAStepThatWouldNotEnd) {
  EXPECT_ERROR(plan_batch(flags({"--batch.global=1073741824"}), 1), ErrorKind::config,
               "the global batch of 1073741824 sequences from batch.global (flag --batch.global) makes 134217728 "
               "micro-batches of 8 on each of 1 ranks before one step ends, at most 16384 are made");
}

TEST(Validate, RefusesSequencesLongerThanTheContextOfANewModel) {
  EXPECT_ERROR(
      flags({"--batch.sequence=2048"}), ErrorKind::config,
      "batch.sequence (flag --batch.sequence) is 2048, more than the 1024 positions of model.context (default); "
      "set --batch.sequence 1024 or --model.context 2048");
  EXPECT_NO_THROW(flags({"--batch.sequence=2048", "--model.init=folder"})) << "the folder says how many it has";
}

TEST(Validate, RefusesAPresetBesideItsSizes) {
  EXPECT_ERROR(flags({"--model.preset=gpt2-124m", "--model.layers=3"}), ErrorKind::config,
               "model.preset (flag --model.preset) and model.layers (flag --model.layers) contradict each other");
  EXPECT_NO_THROW(flags({"--model.preset=gpt2-124m", "--model.context=256", "--model.dropout=0.1"}));
}

TEST(Validate, RefusesAPresetBesideAFolder) {
  EXPECT_ERROR(flags({"--model.preset=gpt2-124m", "--model.init=folder"}), ErrorKind::config,
               "model.preset (flag --model.preset) and model.init (flag --model.init) both say what the model is");
}

TEST(Validate, RefusesTwoGlobalBatches) {
  EXPECT_ERROR(flags({"--batch.global=8", "--batch.per-rank=4"}), ErrorKind::config,
               "batch.per-rank (flag --batch.per-rank) and batch.global (flag --batch.global) contradict each other");
}

TEST(Validate, RefusesMicroBatchesAboveTheGlobalBatch) {
  EXPECT_ERROR(flags({"--batch.micro=64", "--batch.global=12"}), ErrorKind::config,
               "batch.micro (flag --batch.micro) is 64, more than the 12 sequences of batch.global");
  EXPECT_ERROR(flags({"--batch.micro=64", "--batch.per-rank=12"}), ErrorKind::config, "12 sequences of batch.per-rank");
}

TEST(Validate, RefusesToOverwriteARunThatMayBeResumed) {
  EXPECT_ERROR(flags({"--run.overwrite"}), ErrorKind::config, "set --checkpoint.resume none too");
  EXPECT_NO_THROW(flags({"--run.overwrite", "--checkpoint.resume=none"}));
  EXPECT_ERROR(flags({"--run.dir="}), ErrorKind::config, "run.dir (flag --run.dir) is empty");
}

TEST(PlanBatch, DerivesAccumulation) {
  const BatchPlan plan = plan_batch(flags({"--batch.global=480", "--batch.micro=12"}), 4);
  EXPECT_EQ(plan.global, 480);
  EXPECT_EQ(plan.per_rank, 120);
  EXPECT_EQ(plan.micro, 12);
  EXPECT_EQ(plan.accumulation, 10);
}

TEST(PlanBatch, ChoosesTheLargestMicroBatchUpToEight) {
  EXPECT_EQ(plan_batch(flags({"--batch.global=32"}), 2).micro, 8);
  EXPECT_EQ(plan_batch(flags({"--batch.global=28"}), 2).micro, 7);
  EXPECT_EQ(plan_batch(flags({"--batch.global=22"}), 2).micro, 1);
  EXPECT_EQ(plan_batch(flags({"--batch.global=22"}), 2).accumulation, 11);
}

TEST(PlanBatch, MultipliesPerRankByTheRanksOfTheFirstStart) {
  const LoadedConfig loaded = flags({"--batch.per-rank=64", "--batch.micro=32"});
  EXPECT_EQ(plan_batch(loaded, 3).global, 192);
  EXPECT_EQ(plan_batch(loaded, 3).accumulation, 2);
  const BatchPlan resumed = plan_batch(loaded, 2, 192);
  EXPECT_EQ(resumed.global, 192);
  EXPECT_EQ(resumed.accumulation, 3);
}

TEST(PlanBatch, KeepsAGlobalBatchThatTheUserSet) {
  EXPECT_EQ(plan_batch(flags({"--batch.global=32"}), 2, 64).global, 32);
}

TEST(PlanBatch, RefusesAGlobalBatchThatTheRanksDoNotDivide) {
  EXPECT_ERROR(plan_batch(flags({"--batch.global=32"}), 3), ErrorKind::config,
               "the global batch of 32 sequences from batch.global (flag --batch.global) cannot be shared evenly by 3 "
               "data-parallel ranks; start 1, 2, 4, 8, 16, 32 ranks, or set --batch.global 33");
  EXPECT_ERROR(plan_batch(flags({"--batch.per-rank=8"}), 3, 16), ErrorKind::config,
               "the global batch of 16 sequences from batch.per-rank");
}

TEST(PlanBatch, RefusesMicroBatchesThatDoNotDivideARanksShare) {
  EXPECT_ERROR(plan_batch(flags({"--batch.global=32", "--batch.micro=12"}), 2), ErrorKind::config,
               "batch.micro (flag --batch.micro) is 12, but each of 2 ranks has 16 of the 32 sequences of a step; set "
               "--batch.micro to one of 1, 2, 4, 8, 16");
}

}  // namespace
}  // namespace trireme
