#include "optim/loss_scale.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace trireme {
namespace {

/// x: a step whose gradients overflow.
constexpr std::string_view kSteps = "....xx...xxx..x........x.xxxx.....xxxxxxxxx";

struct Course {
  std::vector<double> scales;  ///< after each step
  Overflow last = Overflow::skipped;
};

Course course(const LossScaleOptions& options, std::string_view steps) {
  LossScale state = start_loss_scale(options).value();
  Course found;
  for (const char step : steps) {
    if (step == 'x')
      found.last = count_overflow(state, options);
    else
      count_clean_step(state, options);
    if (found.last != Overflow::skipped) break;
    found.scales.push_back(state.scale);
  }
  return found;
}

// The expected courses are those of DeepSpeed's and metaseq's own classes for the same steps.
TEST(LossScale, OfDeepspeedWaitsForTheHysteresis) {
  const Course found = course({.initial = 16, .window = 4, .hysteresis = 2}, kSteps);
  EXPECT_EQ(found.scales, (std::vector<double>{16, 16, 16, 32, 32, 16, 16, 16, 16, 8, 4, 2, 2, 2,
                                               1,  1,  1,  1,  2,  2,  2,  2,  4,  4, 4, 2, 1}));
  EXPECT_EQ(found.last, Overflow::at_minimum);
}

TEST(LossScale, OfDeepspeedMayRefillTheHysteresisAtEveryCleanStep) {
  const Course found = course({.initial = 16, .window = 4, .hysteresis = 2, .refills_always = true}, kSteps);
  EXPECT_EQ(found.scales, (std::vector<double>{16, 16, 16, 32, 32, 16, 16, 16, 16, 16, 8, 4, 4, 4, 4, 4, 4, 4, 8,
                                               8,  8,  8,  16, 16, 16, 16, 8,  4,  2,  2, 2, 2, 4, 4, 4, 2, 1}));
  EXPECT_EQ(found.last, Overflow::at_minimum);
}

TEST(LossScale, OfDeepspeedWithoutHysteresisIsHalvedByEachOverflow) {
  const Course found = course({.initial = 16, .window = 3, .hysteresis = 1, .minimum = 0.5}, kSteps);
  EXPECT_EQ(found.scales, (std::vector<double>{16, 16, 32, 32, 16, 8, 8, 8, 16, 8, 4, 2, 2,  2,
                                               1,  1,  1,  2,  2,  2, 4, 4, 4,  2, 2, 1, 0.5}));
  EXPECT_EQ(found.last, Overflow::at_minimum);
}

TEST(LossScale, OfMetaseqMovesItsWindowToo) {
  const Course found = course({.rule = LossScaleRule::metaseq, .initial = 4, .window = 4, .minimum = 0x1p-5},
                              "....xx...xxx..x........x.xxxx.....xxxxxxx...........................");
  EXPECT_EQ(
      found.scales,
      (std::vector<double>{
          4,   4,   4,    8,     4,      2,       2,       4,      4,     2,     1,    0.5,  1,    2,    1,   1,   2,
          2,   4,   4,    4,     4,      8,       4,       4,      2,     1,     0.5,  0.25, 0.5,  1,    1,   2,   2,
          1,   0.5, 0.25, 0.125, 0.0625, 0.03125, 0.03125, 0.0625, 0.125, 0.125, 0.25, 0.25, 0.25, 0.25, 0.5, 0.5, 0.5,
          0.5, 0.5, 0.5,  0.5,   0.5,    1,       1,       1,      1,     1,     1,    1,    1,    1,    1,   1,   1}));
}

TEST(LossScale, AFixedOneStays) {
  EXPECT_EQ(course({.fixed = 128, .window = 2}, "....xx.x").scales, std::vector<double>(8, 128));
}

TEST(LossScale, TooManyOverflowsInARowEndTheRun) {
  for (const LossScaleRule rule : {LossScaleRule::deepspeed, LossScaleRule::metaseq}) {
    const LossScaleOptions options{.rule = rule, .initial = 0x1p40, .most_overflows = 3};
    EXPECT_EQ(course(options, "xx.xx.xx").last, Overflow::skipped);
    const Course found = course(options, "xx.xxxx");
    EXPECT_EQ(found.last, Overflow::too_many);
    EXPECT_EQ(found.scales.size(), 5u);
  }
  EXPECT_EQ(course({.fixed = 2, .most_overflows = 3}, "xxx").last, Overflow::too_many);
  EXPECT_EQ(course({.fixed = 2, .most_overflows = 0}, std::string(200, 'x')).last, Overflow::skipped);
}

TEST(LossScale, OfAResumedRunIsTheStoredOne) {
  const LossScaleOptions options{.initial = 16, .window = 4};
  LossScale stored = start_loss_scale(options).value();
  for (int i = 0; i < 5; ++i) count_clean_step(stored, options);
  EXPECT_EQ(start_loss_scale(options, stored), stored);
  LossScaleOptions fixed = options;
  fixed.fixed = 8;
  EXPECT_EQ(start_loss_scale(fixed, stored)->scale, 8);
  EXPECT_EQ(start_loss_scale(std::nullopt, stored), std::nullopt) << "a run in another type scales nothing";
}

}  // namespace
}  // namespace trireme
