#include "train/trainer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <set>

#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/run_folder/run_folder.h"
#include "comm/agreement.h"
#include "tests/support/expect_error.h"
#include "tests/support/log_lines.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/local_run.h"
#include "tests/train/noted_task.h"

namespace trireme {
namespace {
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TrainerTest : public testing::Test {
 protected:
  std::string run_dir() const { return folder_ / "run"; }
  Config config() const {
    Config config = run_config(run_dir());
    config.checkpoint.keep = 0;
    return config;
  }
  std::vector<int64_t> steps() const { return list_steps(run_dir()); }

  TemporaryFolder folder_;
};

TEST_F(TrainerTest, MakesTheStepsOfThePlanWithWhatIsDueBetween) {
  run_local(2, [&](RankContext& rank) {
    LocalRun of(rank, config());
    NotedTask task(run_batch(rank));
    task.first = task.last = true;
    task.evaluate_every = 4;
    task.save_every = 4;
    EXPECT_TRUE(Trainer(of.work(), task, [] { return ""; }).train());
    EXPECT_EQ(of.run.progress.step, 6);
    EXPECT_EQ(of.run.progress.updates, 6);
    EXPECT_EQ(of.run.progress.samples, 6u * kRunBatch);
    EXPECT_EQ(of.run.progress.losses.count, 6);
    EXPECT_NEAR(of.run.progress.losses.mean, std::accumulate(task.step_losses.begin(), task.step_losses.end(), 0.0) / 6,
                1e-9);
    EXPECT_THAT(task.notes, ElementsAre("evaluate 0", "evaluate 4", "evaluate 6", "test 6"));
  });
  EXPECT_THAT(steps(), ElementsAre(4, 6));
}

TEST_F(TrainerTest, BiasCorrectionCountsUpdatesAndNotSkippedSteps) {
  run_local(1, [&](RankContext& rank) {
    Config wanted = config();
    wanted.optim.weight_decay = 0;
    wanted.optim.schedule = RateCourse::constant;
    wanted.run.steps = 4;
    LocalRun of(rank, wanted);
    of.run.progress.step = 3;  // without an update
    const std::vector<float> before = of.weights();
    NotedTask task(run_batch(rank));
    Trainer(of.work(), task, [] { return ""; }).train();
    double most = 0;
    const std::vector<float> after = of.weights();
    for (size_t i = 0; i < before.size(); ++i) most = std::max(most, std::abs(double{after[i]} - before[i]));
    EXPECT_NEAR(most, wanted.optim.learning_rate, 1e-4) << "AdamW's first update moves a weight by the rate";
  });
}

TEST_F(TrainerTest, TheBestWeightsAreSavedAtOnceAndTheLastOnesOnce) {
  run_local(1, [&](RankContext& rank) {
    LocalRun of(rank, config());
    NotedTask task(run_batch(rank));
    task.evaluate_every = 1;
    task.last = true;
    task.losses = {{3, 2.0}, {5, 3.0}, {6, 1.0}};
    EXPECT_TRUE(Trainer(of.work(), task, [] { return ""; }).train());
  });
  EXPECT_THAT(steps(), ElementsAre(3, 6));
  EXPECT_EQ(read_pointer(run_dir(), "best"), 6);
}

TEST_F(TrainerTest, WhatARunStartsFromIsNotItsBestResult) {
  run_local(1, [&](RankContext& rank) {
    LocalRun of(rank, config());
    NotedTask task(run_batch(rank));
    task.first = task.saves_first_too = true;
    task.saves = false;
    task.losses = {{0, 0.5}};
    EXPECT_TRUE(Trainer(of.work(), task, [] { return ""; }).train());
  });
  EXPECT_THAT(steps(), ElementsAre(0));
  EXPECT_FALSE(std::filesystem::exists(run_dir() + "/best"));
}

TEST_F(TrainerTest, AStopOfOneRankSavesTheSameStepOnAll) {
  const LogLines lines;
  run_local(3, [&](RankContext& rank) {
    LocalRun of(rank, config());
    NotedTask task(run_batch(rank));
    task.last = true;
    rank.stop_requested = [&] { return rank.rank() == 2 && of.run.progress.step >= 2; };
    EXPECT_FALSE(Trainer(of.work(), task, [&] { return rank.rank() == 0 ? "the test" : ""; }).train());
    EXPECT_EQ(of.run.progress.step, 3) << "the step under way is finished";
    EXPECT_THAT(task.notes, IsEmpty()) << "a stopped run evaluates nothing more";
  });
  EXPECT_THAT(steps(), ElementsAre(3));
  EXPECT_THAT(lines.text(), HasSubstr("by the test"));
}

TEST_F(TrainerTest, AStopBeforeTheFirstStepSavesNothing) {
  run_local(2, [&](RankContext& rank) {
    LocalRun of(rank, config());
    NotedTask task(run_batch(rank));
    rank.stop_requested = [] { return true; };
    EXPECT_FALSE(Trainer(of.work(), task, [] { return ""; }).train());
    EXPECT_EQ(task.steps_done, 0);
  });
  EXPECT_THAT(steps(), IsEmpty());
}

TEST_F(TrainerTest, AStopInAnEvaluationThatIsDueEndsTheRun) {
  run_local(1, [&](RankContext& rank) {
    LocalRun of(rank, config());
    NotedTask task(run_batch(rank));
    task.evaluate_every = 2;
    task.stop_in_evaluation = true;
    EXPECT_FALSE(Trainer(of.work(), task, [] { return ""; }).train());
  });
  EXPECT_THAT(steps(), ElementsAre(2));
}

TEST_F(TrainerTest, AStoppedAndResumedRunHasTheBitsOfOneThatWasNot) {
  std::vector<float> whole, resumed;
  const auto train = [&](const Config& wanted, int64_t stop_after, std::vector<float>& weights) {
    run_local(2, [&](RankContext& rank) {
      const bool has_steps = !list_steps(wanted.run.dir).empty();
      LocalRun of(rank, wanted, has_steps ? std::optional(open_checkpoint(wanted.run.dir)) : std::nullopt);
      NotedTask task(run_batch(rank));
      rank.stop_requested = [&] { return of.run.progress.step + 1 == stop_after; };
      Trainer(of.work(), task, [] { return ""; }).train();
      if (rank.rank() == 0) weights = of.weights();
    });
  };
  train(config(), -1, whole);
  Config other = config();
  other.run.dir = folder_ / "other";
  train(other, 4, resumed);
  EXPECT_NE(resumed, whole);
  train(other, -1, resumed);
  EXPECT_EQ(resumed, whole);
  EXPECT_THAT(list_steps(other.run.dir), ElementsAre(4, 6));
}

TEST_F(TrainerTest, ARunWithAllItsStepsSaysSoAndMakesNone) {
  run_local(1, [&](RankContext& rank) {
    LocalRun of(rank, config());
    NotedTask task(run_batch(rank));
    Trainer(of.work(), task, [] { return ""; }).train();
  });
  const LogLines lines;
  run_local(1, [&](RankContext& rank) {
    LocalRun of(rank, config(), open_checkpoint(run_dir()));
    NotedTask task(run_batch(rank));
    EXPECT_TRUE(Trainer(of.work(), task, [] { return ""; }).train());
    EXPECT_EQ(task.steps_done, 0);
  });
  EXPECT_THAT(lines.text(), AllOf(HasSubstr("6 steps"), HasSubstr("run.steps")));
}

TEST_F(TrainerTest, ATaskThatIsFinishedEndsTheRunBeforeItsLastStep) {
  run_local(2, [&](RankContext& rank) {
    LocalRun of(rank, config());
    NotedTask task(run_batch(rank));
    task.finish_after = 2;
    EXPECT_TRUE(Trainer(of.work(), task, [] { return ""; }).train());
    EXPECT_THAT(task.notes, ElementsAre("test 2"));
  });
  EXPECT_THAT(steps(), ElementsAre(2));
}

TEST_F(TrainerTest, EvaluatingOnlyChangesNoWeightAndMakesNoSnapshot) {
  run_local(2, [&](RankContext& rank) {
    Config only = config();
    only.evaluation.only = true;
    LocalRun of(rank, only);
    const std::vector<float> before = of.weights();
    NotedTask task(run_batch(rank));
    EXPECT_TRUE(Trainer(of.work(), task, [] { return ""; }).evaluate_only());
    EXPECT_THAT(task.notes, ElementsAre("evaluate 0", "test 0"));
    EXPECT_EQ(of.weights(), before);
    rank.stop_requested = [&] { return rank.rank() == 1; };
    EXPECT_FALSE(Trainer(of.work(), task, [] { return ""; }).evaluate_only());
  });
  EXPECT_THAT(steps(), IsEmpty());
}

/// A history of losses next to which every loss of an untrained model is a spike.
LossTrend low_losses() { return {.count = 100, .mean = 0.1, .variance = 1e-6}; }

TEST_F(TrainerTest, ASpikeIsOnlyReportedOrSkippedAsThePolicySays) {
  for (const OnSpike policy : {OnSpike::warn, OnSpike::skip}) {
    const LogLines lines;
    run_local(2, [&](RankContext& rank) {
      Config wanted = config();
      wanted.run.dir = folder_ / std::string(name_of(policy));
      wanted.run.on_spike = policy;
      wanted.run.steps = 2;
      LocalRun of(rank, wanted);
      of.run.progress.losses = low_losses();
      const std::vector<float> before = of.weights();
      NotedTask task(run_batch(rank));
      if (policy == OnSpike::skip) {  // a run that ends in a streak is an error
        EXPECT_THROW(Trainer(of.work(), task, [] { return ""; }).train(), CommonError);
        EXPECT_EQ(of.weights(), before);
        EXPECT_EQ(of.run.progress.skipped, 2);
        EXPECT_EQ(of.run.progress.updates, 0);
        EXPECT_THAT(task.notes, ElementsAre("skipped", "skipped", "test 2"));
        EXPECT_EQ(of.run.progress.losses.count, 100) << "a skipped loss is not part of the trend";
      } else {
        EXPECT_TRUE(Trainer(of.work(), task, [] { return ""; }).train());
        EXPECT_NE(of.weights(), before);
        EXPECT_EQ(of.run.progress.losses.count, 102);
      }
    });
    EXPECT_THAT(lines.text(), AllOf(HasSubstr("spike"), HasSubstr("samples 0 to 3"))) << name_of(policy);
  }
}

TEST_F(TrainerTest, ASpikeGoesBackToTheLastSnapshotAndLeavesTheSamplesOut) {
  run_local(2, [&](RankContext& rank) {
    Config wanted = config();
    wanted.run.on_spike = OnSpike::roll_back;
    LocalRun of(rank, wanted);
    std::vector<float> saved;
    {
      NotedTask task(run_batch(rank));
      task.save_every = 2;
      task.finish_after = 2;
      Trainer(of.work(), task, [] { return ""; }).train();
      saved = of.weights();
    }
    ASSERT_EQ(of.saver->published_step(), 2);
    // One spike: the trend is low for the next step, and the snapshot's counters come back with its weights.
    of.run.progress.losses = low_losses();
    NotedTask noted(run_batch(rank));
    Task task = noted;
    std::vector<float> after_spike;
    task.is_finished = [&] {
      if (noted.steps_done == 1) after_spike = of.weights();
      return noted.steps_done >= 2;
    };
    Trainer(of.work(), std::move(task), [] { return ""; }).train();
    EXPECT_EQ(after_spike, saved);
    EXPECT_EQ(of.run.progress.step, 3);
    EXPECT_EQ(of.run.progress.updates, 3);
    EXPECT_EQ(of.run.progress.samples, 4u * kRunBatch) << "the samples of the spike are not seen again";
    EXPECT_EQ(of.run.progress.skipped, 1);
    EXPECT_EQ(of.run.progress.losses.count, 3);
  });
}

TEST_F(TrainerTest, ATaskThatEndsRightAfterARollBackEndsWithGoodWeights) {
  run_local(2, [&](RankContext& rank) {
    Config wanted = config();
    wanted.run.on_spike = OnSpike::roll_back;
    LocalRun of(rank, wanted);
    NotedTask first(run_batch(rank));
    first.save_every = 2;
    first.finish_after = 2;
    Trainer(of.work(), first, [] { return ""; }).train();
    const std::vector<float> saved = of.weights();
    of.run.progress.losses = low_losses();
    NotedTask task(run_batch(rank));
    task.finish_after = 1;
    EXPECT_TRUE(Trainer(of.work(), task, [] { return ""; }).train());
    EXPECT_FALSE(of.saver->in_streak());
    EXPECT_EQ(of.weights(), saved);
    EXPECT_EQ(of.run.progress.step, 2);
  });
  EXPECT_THAT(steps(), ElementsAre(2));
}

TEST_F(TrainerTest, GoingBackToOneSnapshotEndsAfterThreeTimes) {
  run_local(1, [&](RankContext& rank) {
    Config wanted = config();
    wanted.run.on_spike = OnSpike::roll_back;
    LocalRun of(rank, wanted);
    of.run.progress.losses = low_losses();
    NotedTask task(run_batch(rank));
    task.saves_first_too = true;  // its counters have the low trend: every step is a spike
    EXPECT_ERROR(Trainer(of.work(), task, [] { return ""; }).train(), ErrorKind::numeric, "step 0 3 times");
    EXPECT_EQ(task.steps_done, 4);
  });
}

TEST_F(TrainerTest, InAStreakASnapshotThatIsDueWaitsForAGoodStep) {
  run_local(1, [&](RankContext& rank) {
    Config wanted = config();
    wanted.run.on_spike = OnSpike::skip;
    wanted.run.steps = 5;
    LocalRun of(rank, wanted);
    of.run.progress.losses = low_losses();
    NotedTask noted(run_batch(rank));
    noted.save_every = 2;
    noted.saves = false;
    Task task = noted;
    task.step_done = [&, note = task.step_done](const StepResult& result) {
      note(result);
      if (noted.steps_done == 3) of.run.progress.losses = {};
    };
    EXPECT_TRUE(Trainer(of.work(), std::move(task), [] { return ""; }).train());
  });
  EXPECT_THAT(steps(), ElementsAre(4)) << "that of step 2 was put off until the fourth step was good";
}

TEST_F(TrainerTest, ManyStepsInARowThatAreNotFiniteEndTheRun) {
  const LogLines lines;
  run_local(2, [&](RankContext& rank) {
    Config wanted = config();
    wanted.run.max_skips = 3;
    LocalRun of(rank, wanted);
    of.set_weights(std::numeric_limits<float>::quiet_NaN());
    NotedTask task(run_batch(rank));
    EXPECT_ERROR(Trainer(of.work(), task, [] { return ""; }).train(), ErrorKind::numeric,
                 "lower optim.learning-rate or resume from an earlier snapshot");
    EXPECT_EQ(of.run.progress.step, 3);
  });
  EXPECT_THAT(lines.text(), HasSubstr(" is not finite; samples "));
  EXPECT_TRUE(std::filesystem::exists(run_dir() + "/bad-samples.json"));
}

TEST_F(TrainerTest, ARankWithOtherWeightsIsFoundAfterTheFirstStepAndHealed) {
  const LogLines lines;
  std::mutex mutex;
  std::set<std::vector<float>> ends;
  run_local(3, [&](RankContext& rank) {
    LocalRun of(rank, config());
    if (rank.rank() == 1) of.run.state.weights().values<float>()[7] += 1;
    NotedTask task(run_batch(rank));
    EXPECT_TRUE(Trainer(of.work(), task, [] { return ""; }).train());
    const std::lock_guard lock(mutex);
    ends.insert(of.weights());
  });
  EXPECT_EQ(ends.size(), 1u);
  EXPECT_THAT(lines.text(), HasSubstr("rank 1"));
}

}  // namespace
}  // namespace trireme
