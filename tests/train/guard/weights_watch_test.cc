#include "train/saver.h"

#include <gtest/gtest.h>

#include <limits>

namespace trireme {
namespace {

constexpr StepResult kGood{.loss = 2, .norm = 1, .finite = true, .skipped = false};
constexpr StepResult kSpike{.loss = 9, .norm = 1, .finite = true, .skipped = true};
constexpr StepResult kNotFinite{.loss = 2e5, .norm = 0, .finite = false, .skipped = true};

TEST(WeightsWatch, AGoodStepProvesTheWeightsThatItWasMadeOn) {
  WeightsWatch watch;
  EXPECT_EQ(watch.good_step(), -1);
  watch.record_step(30, kGood);
  EXPECT_EQ(watch.good_step(), 30) << "of what it made of them only the next step tells";
  EXPECT_FALSE(watch.in_streak());
}

TEST(WeightsWatch, AStreakLastsUntilTheNextGoodStep) {
  WeightsWatch watch;
  watch.record_step(30, kGood);
  for (int64_t step = 31; step < 34; ++step) {
    watch.record_step(step, kNotFinite);
    EXPECT_TRUE(watch.in_streak());
    EXPECT_EQ(watch.good_step(), 30);
  }
  watch.record_step(34, kGood);
  EXPECT_FALSE(watch.in_streak());
  EXPECT_EQ(watch.good_step(), 34);
}

TEST(WeightsWatch, AnOverflowInF16SaysNothingOfTheWeights) {
  WeightsWatch watch;
  watch.record_step(30, kGood);
  watch.record_step(31, {.loss = 2, .norm = 0, .finite = false, .overflow = true, .skipped = true});
  EXPECT_FALSE(watch.in_streak());
  EXPECT_EQ(watch.good_step(), 30);
}

TEST(WeightsWatch, AFiniteEvaluationEndsAStreakOfSpikesOnly) {
  WeightsWatch watch;
  watch.record_step(5, kSpike);
  EXPECT_TRUE(watch.in_streak());
  watch.record_evaluation(2.5);
  EXPECT_FALSE(watch.in_streak());
  EXPECT_EQ(watch.good_step(), -1);
  watch.record_step(6, kNotFinite);
  watch.record_evaluation(2e5);
  EXPECT_TRUE(watch.in_streak()) << "exploded weights have a loss, too";
}

TEST(WeightsWatch, ANonFiniteEvaluationBeginsOne) {
  WeightsWatch watch;
  watch.record_step(5, kGood);
  watch.record_evaluation(std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(watch.in_streak());
}

}  // namespace
}  // namespace trireme
