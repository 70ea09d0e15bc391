#include "train/guard/skips.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace trireme {
namespace {

LossTrend trend_of(int count, double mean, double swing) {
  LossTrend trend;
  for (int i = 0; i < count; ++i) add_loss(trend, mean + (i % 2 ? swing : -swing));
  return trend;
}

TEST(Spikes, AreDetectedByTheMeanAndDeviationOfRecentLosses) {
  const LossTrend trend = trend_of(1000, 3, 0.5);
  EXPECT_NEAR(trend.mean, 3, 0.02);
  EXPECT_NEAR(std::sqrt(trend.variance), 0.5, 0.01);
  EXPECT_NEAR(spike_limit(trend, 6), 6, 0.1);
}

TEST(Spikes, AreNotDetectedDuringTheFirstStepsOrWithScoreZero) {
  EXPECT_EQ(spike_limit(trend_of(49, 3, 0.5), 6), std::numeric_limits<double>::infinity());
  EXPECT_LT(spike_limit(trend_of(50, 3, 0.5), 6), 7);
  EXPECT_EQ(spike_limit(trend_of(1000, 3, 0.5), 0), std::numeric_limits<double>::infinity());
}

TEST(Spikes, ASmallChangeOfASteadyLossIsNotASpike) { EXPECT_NEAR(spike_limit(trend_of(1000, 3, 0), 6), 3.18, 1e-6); }

TEST(Spikes, TheMeanFollowsAFallingLoss) {
  LossTrend trend;
  for (int i = 0; i < 1000; ++i) add_loss(trend, 10.0 - 0.009 * i);
  EXPECT_NEAR(trend.mean, 1.0, 0.5);
  EXPECT_LT(spike_limit(trend, 6), 5);
}

}  // namespace
}  // namespace trireme
