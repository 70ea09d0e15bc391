#include "report/live/run_history.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace trireme {
namespace {

Metrics at(int64_t step, double loss = 1) {
  Metrics m;
  m.step = step;
  m.loss = loss;
  return m;
}

EvaluationMetrics evaluated(int64_t step) {
  EvaluationMetrics m;
  m.step = step;
  m.validation_loss = 1.0;
  return m;
}

TEST(RunHistory, KeepsAMillionStepsInBoundedMemoryWithTheirPeaks) {
  RunHistory history;
  history.start({.first_step = 0, .steps = 1'000'000, .facts = {}}, 10);
  for (int64_t step = 1; step <= 1'000'000; ++step) history.step(at(step, step % 100'000 == 50'001 ? 99 : 1), 11);
  for (int64_t step = 1; step <= 10'000; ++step) history.evaluation(evaluated(100 * step), 12);
  for (int64_t step = 1; step <= 1000; ++step) history.checkpoint({.step = step, .path = "x", .seconds = 1});
  const RunLog& log = history.log();
  EXPECT_LE(log.steps.size(), RunHistory::kMostSteps);
  EXPECT_GT(log.steps.size(), RunHistory::kMostSteps / 3);
  EXPECT_EQ(log.steps.front().step, 1);
  EXPECT_EQ(log.steps.back().step, 1'000'000);
  EXPECT_TRUE(std::ranges::is_sorted(log.steps, {}, &Metrics::step));
  EXPECT_EQ(std::ranges::count(log.steps, 99, &Metrics::loss), 10);
  const auto first_half = std::ranges::count_if(log.steps, [](const Metrics& m) { return m.step <= 500'000; });
  EXPECT_NEAR(static_cast<double>(first_half) / static_cast<double>(log.steps.size()), 0.5, 0.1);
  EXPECT_LE(log.evaluations.size(), RunHistory::kMostEvaluations);
  EXPECT_EQ(log.evaluations.back().step, 1'000'000);
  EXPECT_EQ(log.checkpoints.size(), RunHistory::kMostEvents);
  EXPECT_EQ(log.checkpoints.back().step, 1000);
}

TEST(RunHistory, ANewAttemptDropsWhatItRepeats) {
  RunHistory history;
  history.start({.first_step = 0, .steps = 100, .facts = {}}, 10);
  for (int64_t step = 10; step <= 50; step += 10) history.step(at(step), 20);
  history.evaluation(evaluated(50), 21);
  history.finish("rolled-back", 22);
  history.start({.first_step = 30, .steps = 200, .facts = {{"model", "m"}}}, 30);
  history.step(at(40), 31);
  const RunLog& log = history.log();
  ASSERT_EQ(log.steps.size(), 4U);
  EXPECT_EQ(log.steps[2].step, 30);
  EXPECT_EQ(log.steps[3].step, 40);
  EXPECT_TRUE(log.evaluations.empty());
  EXPECT_EQ(log.total_steps, 200);
  ASSERT_EQ(log.attempts.size(), 2U);
  EXPECT_EQ(log.attempts[0].state, "rolled-back");
  EXPECT_EQ(log.attempts[0].ended, 22);
  EXPECT_EQ(log.attempts[1].last_step, 40);
}

TEST(RunHistory, PutsEarlierAttemptsBeforeThisOne) {
  RunLog earlier;
  for (int64_t step = 10; step <= 60; step += 10) earlier.steps.push_back(at(step));
  earlier.attempts = {{0, 60, 1, 9, "stopped"}, {50, 60, 100, 110, ""}};  // the second is this one, in the file already
  RunHistory history;
  history.start({.first_step = 50, .steps = 100, .facts = {}}, 100);
  history.step(at(60), 105);
  history.set_earlier(earlier);
  const RunLog& log = history.log();
  ASSERT_EQ(log.steps.size(), 6U);
  EXPECT_EQ(log.steps[4].step, 50);
  EXPECT_EQ(log.steps[5].step, 60);
  ASSERT_EQ(log.attempts.size(), 2U);
  EXPECT_EQ(log.attempts[0].state, "stopped");
}

TEST(RunHistory, ShowsARunOfWhichItHasOnlyTheFile) {
  RunLog log;
  log.total_steps = 20;
  log.steps = {at(10), at(20)};
  log.attempts = {{0, 20, 1, 9, "done"}};
  RunHistory history;
  history.set_earlier(log);
  EXPECT_EQ(history.log().steps.size(), 2U);
  log.steps.push_back(at(25));
  history.set_earlier(log);  // read again
  EXPECT_EQ(history.log().steps.size(), 3U);
}

}  // namespace
}  // namespace trireme
