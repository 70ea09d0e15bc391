#include "train/plan_check.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

PlannedTime planned() {
  PlannedTime time;
  time.products = 0.8;
  time.passes = 0.2;
  return time;
}

TEST(PlanCheck, SaysPlanMeasurementAndDifference) {
  EXPECT_EQ(compare_with_plan(planned(), {.seconds = 1.04}),
            "step: 1.000 s planned with the rates of this machine (products 0.800 s, passes 0.200 s), 1.040 s measured "
            "(+4.0 %)");
}

TEST(PlanCheck, SaysTheSizeOfStepsThatDiffer) {
  EXPECT_EQ(compare_with_plan(planned(), {.seconds = 1.04, .rows = 811.6}),
            "step of 812 tokens on average: 1.000 s planned with the rates of this machine (products 0.800 s, passes "
            "0.200 s), 1.040 s measured (+4.0 %)");
}

TEST(PlanCheck, NamesTheLikelyCauseOfALargeDifference) {
  const auto cause = [](const SeenSteps& seen) {
    const std::string text = compare_with_plan(planned(), seen);
    const size_t at = text.find("; likely cause: ");
    return at == std::string::npos ? "" : text.substr(at + 16);
  };
  EXPECT_EQ(cause({.seconds = 1.09}), "");
  EXPECT_EQ(cause({.seconds = 0.91}), "");
  EXPECT_EQ(cause({.seconds = 1.5, .waiting = 0.4}), "waiting for other ranks, 0.400 s");
  EXPECT_EQ(cause({.seconds = 1.5, .waiting = 0.4, .unknown_links = true}),
            "waiting for other ranks, 0.400 s, part of it for messages over links whose rate the plan does not know");
  EXPECT_EQ(cause({.seconds = 1.5, .waiting = 0.4, .rows = 800}),
            "waiting for other ranks, 0.400 s, part of it because their batches have more tokens");
  EXPECT_EQ(cause({.seconds = 1.5, .waiting = 0.1, .others = 0.3}),
            "other programs used 30 % of the processors at the start");
  EXPECT_EQ(cause({.seconds = 1.5}),
            "operators slower than products and copies of this machine; --log.profile 5 shows which");
  EXPECT_EQ(cause({.seconds = 0.8}), "the peak or the copy rate was measured while other programs used the machine");
}

TEST(RecentSteps, HaveMeansWithoutTheFirstStep) {
  RecentSteps times;
  EXPECT_EQ(times.mean_seconds(), 0);
  times.add(9, 5, {1, 10, 100, 1});
  EXPECT_EQ(times.mean_seconds(), 9);
  times.add(1, 1, {1, 20, 200, 2});
  times.add(2, 2, {2, 40, 400, 6});
  EXPECT_EQ(times.mean_seconds(), 1.5);
  EXPECT_EQ(times.mean_waiting(), 1.5);
  const StepRows rows = times.mean_rows();
  EXPECT_EQ(rows.micro_batches, 1.5);
  EXPECT_EQ(rows.rows, 30);
  EXPECT_EQ(rows.squares, 300);
  EXPECT_EQ(rows.counted, 4);
}

TEST(RecentSteps, AreMediansOfTheLastSteps) {
  RecentSteps times;
  EXPECT_EQ(times.seconds(), 0);
  for (const double seconds : {9.0, 1.0, 2.0}) times.add(seconds, seconds / 10);
  EXPECT_EQ(times.seconds(), 2);
  EXPECT_EQ(times.waiting(), 0.2);
  for (int i = 0; i < 101; ++i) times.add(5, 0);
  EXPECT_EQ(times.seconds(), 5);
  EXPECT_EQ(times.count(), 104);
}

}  // namespace
}  // namespace trireme
