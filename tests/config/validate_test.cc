#include "config/validate.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace trireme {
namespace {

LoadedConfig flags(const std::vector<std::string>& words) { return load_config({}, words); }

TEST(Validate, RefusesHeadsThatDoNotDivideTheWidth) {
  EXPECT_ERROR(flags({"--model.heads=7"}), ErrorKind::config,
               "model.heads (flag --model.heads) is 7, which does not divide model.width (default) = 768; numbers of "
               "heads that do: 2, 3, 4, 6, 8, 12, 16, 24");
}

TEST(Validate, RefusesAFloorAboveThePeak) {
  EXPECT_ERROR(flags({"--optim.learning-rate=1e-5"}), ErrorKind::config,
               "optim.min-learning-rate (default) is 6e-05, which is above optim.learning-rate (flag "
               "--optim.learning-rate) = 1e-05");
  EXPECT_NO_THROW(flags({"--optim.learning-rate=1e-5", "--optim.schedule=constant"}));
}

TEST(Validate, RefusesAStepThatWouldNotEnd) {
  EXPECT_ERROR(plan_batch(flags({"--batch.global=1073741824"}), 1), ErrorKind::config,
               "the global batch of 1073741824 sequences from batch.global (flag --batch.global) needs 134217728 "
               "micro-batches of 8 on each of 1 rank per step, but at most 16384 are supported");
}

TEST(Validate, RefusesSequencesLongerThanTheContextOfANewModel) {
  EXPECT_ERROR(
      flags({"--batch.sequence=2048"}), ErrorKind::config,
      "batch.sequence (flag --batch.sequence) is 2048, more than the 1024 positions of model.context (default); "
      "set --batch.sequence 1024 or --model.context 2048");
  EXPECT_NO_THROW(flags({"--batch.sequence=2048", "--model.init=folder"})) << "the folder says how many it has";
}

TEST(Validate, TakesSizesBesideAPreset) {
  EXPECT_NO_THROW(
      flags({"--model.preset=gpt2-124m", "--model.layers=3", "--model.context=256", "--model.dropout=0.1"}));
}

TEST(Validate, RefusesWhatIsNotTheAddressOfAnMlflowServer) {
  for (const char* url :
       {"node1:5000", "ftp://node1", "http://", "http:///path", "http://me:secret@node1", "sqlite:///a.db"}) {
    EXPECT_ERROR(flags({"--log.mlflow", url}), ErrorKind::config, "expected a URL like http://node1:5000");
  }
  EXPECT_NO_THROW(flags({"--log.mlflow", "http://node1:5000", "--log.mlflow-experiment", "a"}));
  EXPECT_NO_THROW(flags({"--log.mlflow", "https://host/mlflow/"}));
  EXPECT_ERROR(flags({"--log.mlflow-experiment", "a"}), ErrorKind::config,
               "log.mlflow-experiment (flag --log.mlflow-experiment) is a, but no server is set");
  EXPECT_ERROR(flags({"--log.mlflow", "http://node1:5000", "--log.mlflow-experiment="}), ErrorKind::config,
               "log.mlflow-experiment (flag --log.mlflow-experiment) is empty");
}

TEST(Validate, RefusesTwoWarmUps) {
  EXPECT_ERROR(
      flags({"--optim.warmup-fraction=0.1", "--optim.warmup-steps=4"}), ErrorKind::config,
      "optim.warmup-fraction (flag --optim.warmup-fraction) and optim.warmup-steps (flag --optim.warmup-steps) "
      "are both set");
}

TEST(Validate, RefusesAnExponentialCourseOfNanogpts) {
  EXPECT_ERROR(flags({"--optim.schedule=exponential"}), ErrorKind::config,
               "optim.schedule (flag --optim.schedule) is exponential, which only NeoX has; set "
               "--optim.schedule-form neox");
  EXPECT_NO_THROW(flags({"--optim.schedule=exponential", "--optim.schedule-form=neox"}));
  for (const char* course : {"polynomial", "cosine-with-restarts", "inverse-sqrt", "stable-decay"}) {
    const std::string schedule = std::string("--optim.schedule=") + course;
    EXPECT_ERROR(flags({schedule, "--optim.schedule-form=neox"}), ErrorKind::config,
                 "is a schedule that NeoX does not have; set --optim.schedule-form nanogpt");
    EXPECT_NO_THROW(flags({schedule}));
  }
  const std::pair<const char*, const char*> of_one_course[] = {{"--optim.decay-power=2", "polynomial"},
                                                               {"--optim.restarts=3", "cosine-with-restarts"},
                                                               {"--optim.timescale=7", "inverse-sqrt"},
                                                               {"--optim.decay-length=7", "stable-decay"},
                                                               {"--optim.decay-shape=linear", "stable-decay"}};
  for (const auto& [flag, course] : of_one_course) {
    EXPECT_ERROR(flags({flag}), ErrorKind::config,
                 std::string("has an effect only with --optim.schedule ") + course + "; remove it");
    EXPECT_NO_THROW(flags({flag, std::string("--optim.schedule=") + course}));
  }
}

TEST(Validate, RefusesMergesWithoutAVocabulary) {
  EXPECT_ERROR(flags({"--data.merges=m.txt"}), ErrorKind::config,
               "data.merges (flag --data.merges) is m.txt, but the vocabulary is missing; set --data.tokenizer");
}

TEST(Validate, ReadsFurtherSnapshots) {
  EXPECT_EQ(extra_snapshots(flags({"--checkpoint.also=0, 8,2"})), (std::set<int64_t>{0, 2, 8}));
  EXPECT_EQ(extra_snapshots(flags({})), std::set<int64_t>{});
  EXPECT_ERROR(flags({"--checkpoint.also=1,x"}), ErrorKind::config,
               "checkpoint.also (flag --checkpoint.also) is \"1,x\", expected steps separated by commas");
}

TEST(Validate, RefusesAPresetBesideAFolder) {
  EXPECT_ERROR(flags({"--model.preset=gpt2-124m", "--model.init=folder"}), ErrorKind::config,
               "model.preset (flag --model.preset) and model.init (flag --model.init) both determine the model");
}

TEST(Validate, RefusesTwoGlobalBatches) {
  EXPECT_ERROR(flags({"--batch.global=8", "--batch.per-rank=4"}), ErrorKind::config,
               "batch.per-rank (flag --batch.per-rank) and batch.global (flag --batch.global) are both set");
}

TEST(Validate, RefusesMicroBatchesAboveTheGlobalBatch) {
  EXPECT_ERROR(flags({"--batch.micro=64", "--batch.global=12"}), ErrorKind::config,
               "batch.micro (flag --batch.micro) is 64, more than the 12 sequences of batch.global");
  EXPECT_ERROR(flags({"--batch.micro=64", "--batch.per-rank=12"}), ErrorKind::config, "12 sequences of batch.per-rank");
}

TEST(Validate, RefusesToOverwriteARunThatMayBeResumed) {
  EXPECT_ERROR(flags({"--run.overwrite"}), ErrorKind::config, "set --checkpoint.resume none, or remove run.overwrite");
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

TEST(PlanBatch, AccumulationGivesTheMicroBatchOrMustAgree) {
  EXPECT_EQ(plan_batch(flags({"--batch.global=96", "--batch.accumulation=3"}), 2).micro, 16);
  EXPECT_EQ(plan_batch(flags({"--batch.global=96", "--batch.micro=16", "--batch.accumulation=3"}), 2).accumulation, 3);
  EXPECT_ERROR(
      plan_batch(flags({"--batch.global=96", "--batch.accumulation=5"}), 2), ErrorKind::config,
      "batch.accumulation (flag --batch.accumulation) is 5, but each of 2 ranks has 48 of the 96 sequences of a "
      "step; set --batch.accumulation to one of 2, 3, 4, 6, 8, 12, 16, 24");
  EXPECT_ERROR(
      plan_batch(flags({"--batch.global=96", "--batch.micro=16", "--batch.accumulation=2"}), 2), ErrorKind::config,
      "batch.micro (flag --batch.micro) is 16 and batch.accumulation (flag --batch.accumulation) is 2: on 2 "
      "data-parallel ranks this gives 64 sequences per step, not the 96 of batch.global (flag --batch.global)");
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
  EXPECT_ERROR(
      plan_batch(flags({"--batch.global=32"}), 3), ErrorKind::config,
      "the global batch of 32 sequences from batch.global (flag --batch.global) cannot be divided evenly among 3 "
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
