#include "optim/schedule.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

constexpr Schedule kGpt2{RateCourse::cosine, 6e-4, 6e-5, 2000, 600000};

TEST(Schedule, WarmsUpLinearlyAndNeverStartsAtZero) {
  EXPECT_DOUBLE_EQ(learning_rate(kGpt2, 0), 6e-4 / 2001);
  EXPECT_DOUBLE_EQ(learning_rate(kGpt2, 999), 6e-4 * 1000 / 2001);
  EXPECT_DOUBLE_EQ(learning_rate(kGpt2, 1999), 6e-4 * 2000 / 2001);
}

TEST(Schedule, FollowsTheCosineFromPeakToMinimum) {
  EXPECT_DOUBLE_EQ(learning_rate(kGpt2, 2000), 6e-4);
  EXPECT_DOUBLE_EQ(learning_rate(kGpt2, 301000), 3.3e-4);                  // half way: the mean of both
  EXPECT_NEAR(learning_rate(kGpt2, 151500), 5.209188309203679e-4, 1e-18);  // a quarter: cos(pi / 4)
  EXPECT_DOUBLE_EQ(learning_rate(kGpt2, 600000), 6e-5);
  EXPECT_DOUBLE_EQ(learning_rate(kGpt2, 600001), 6e-5);
  EXPECT_DOUBLE_EQ(learning_rate(kGpt2, int64_t{1} << 40), 6e-5);
}

TEST(Schedule, LinearGoesStraightFromPeakToMinimum) {
  const Schedule schedule{RateCourse::linear, 1e-3, 1e-4, 10, 110};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 9), 1e-3 * 10 / 11);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 10), 1e-3);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 35), 7.75e-4);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 60), 5.5e-4);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 110), 1e-4);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1000), 1e-4);
}

TEST(Schedule, ConstantKeepsThePeakAfterWarmUp) {
  const Schedule schedule{RateCourse::constant, 1e-3, 1e-5, 10, 100};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 4), 1e-3 * 5 / 11);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 10), 1e-3);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1000), 1e-3);
}

TEST(Schedule, ADecayThatEndsWithTheWarmUpGoesStraightToTheMinimum) {
  const Schedule schedule{RateCourse::cosine, 1e-3, 1e-5, 10, 10};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 9), 1e-3 * 10 / 11);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 10), 1e-5);
}

TEST(Schedule, LinearFallsInEqualStepsFromThePeakToTheMinimum) {
  Schedule schedule{RateCourse::linear, 1e-3, 0, 0, 100};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 0), 1e-3);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 25), 0.75e-3);
  EXPECT_NEAR(learning_rate(schedule, 99), 1e-5, 1e-15);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 100), 0);
  schedule.warmup_steps = 20;
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 0), 1e-3 / 21);
  schedule.warms_from_zero = true;  // transformers' rule
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 0), 0);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 5), 0.25e-3);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 60), 0.5e-3);
}

}  // namespace
}  // namespace trireme
