#include "train/guard/skips.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/expect_error.h"
#include "tests/support/local_ranks.h"
#include "tests/support/log_lines.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

constexpr StepResult kGood{.loss = 2, .norm = 1};
constexpr StepResult kOverflow{.loss = 2, .norm = INFINITY, .finite = false, .overflow = true, .skipped = true};
constexpr int64_t kSamples = 8;

/// The steps of a run in f16 on one rank.
void with_watch(const LossScaleOptions& scaling, const std::function<void(SkipWatch&, RunCounters&, Scalars&)>& use) {
  run_local(1, [&](RankContext& rank) {
    Scalars scalars(rank.world);
    SkipWatch watch("unused", 2, scaling);
    RunCounters progress;
    progress.loss_scale = start_loss_scale(scaling);
    use(watch, progress, scalars);
  });
}

TEST(SkipWatch, AnOverflowMovesNeitherTheScheduleNorTheCountOfSkipsInARow) {
  with_watch({.initial = 16, .window = 2, .hysteresis = 1}, [](SkipWatch& watch, RunCounters& progress, Scalars& s) {
    const LogLines lines;
    for (const StepResult& result : {kGood, kOverflow, kOverflow, kOverflow, kGood, kGood})
      watch.account(result, kSamples, 1e9, progress, s);
    EXPECT_EQ(progress.step, 6);
    EXPECT_EQ(progress.samples, 6u * kSamples);
    EXPECT_EQ(progress.updates, 3);
    EXPECT_EQ(progress.scheduled_steps(), 3);
    EXPECT_EQ(progress.skipped, 3);
    EXPECT_EQ(progress.overflows, 3);
    EXPECT_EQ(progress.consecutive_skips, 0) << "two in a row would end a run in another type";
    EXPECT_EQ(progress.loss_scale->scale, 4);
    EXPECT_THAT(lines.text(), HasSubstr("step 2 skipped: its gradients overflowed in f16; the loss scale lowered from "
                                        "16 to 8"));
  });
}

TEST(SkipWatch, TheHysteresisIsSaid) {
  with_watch({.initial = 16, .hysteresis = 2}, [](SkipWatch& watch, RunCounters& progress, Scalars& scalars) {
    const LogLines lines;
    watch.account(kOverflow, kSamples, 1e9, progress, scalars);
    EXPECT_THAT(lines.text(), HasSubstr("step 1 skipped: its gradients overflowed in f16; the loss scale remains 16"));
  });
}

TEST(SkipWatch, ASpikeIsNoOverflow) {
  with_watch({.initial = 16, .window = 1}, [](SkipWatch& watch, RunCounters& progress, Scalars& scalars) {
    watch.account({.loss = 9, .norm = 1, .skipped = true}, kSamples, 3, progress, scalars);
    EXPECT_EQ(progress.consecutive_skips, 1);
    EXPECT_EQ(progress.overflows, 0);
    EXPECT_EQ(progress.loss_scale->scale, 32);
  });
}

TEST(SkipWatch, TheSmallestScaleEndsTheRun) {
  with_watch({.initial = 2, .hysteresis = 1}, [](SkipWatch& watch, RunCounters& progress, Scalars& scalars) {
    watch.account(kOverflow, kSamples, 1e9, progress, scalars);
    EXPECT_ERROR(watch.account(kOverflow, kSamples, 1e9, progress, scalars), ErrorKind::numeric,
                 "step 2: gradients overflowed in f16 at the smallest loss scale, 1; lower optim.learning-rate, resume "
                 "from an earlier snapshot, or train with precision.dtype bf16");
  });
}

TEST(SkipWatch, TooManyOverflowsEndTheRun) {
  with_watch({.initial = 0x1p20, .hysteresis = 1, .most_overflows = 3},
             [](SkipWatch& watch, RunCounters& progress, Scalars& scalars) {
               for (int i = 0; i < 2; ++i) watch.account(kOverflow, kSamples, 1e9, progress, scalars);
               EXPECT_ERROR(watch.account(kOverflow, kSamples, 1e9, progress, scalars), ErrorKind::numeric,
                            "step 3: gradients overflowed in f16 in 3 steps in a row, the last at loss scale 262144;");
             });
}

}  // namespace
}  // namespace trireme
