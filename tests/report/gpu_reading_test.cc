#include "report/gpu_reading.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace trireme {
namespace {

TEST(GpuReading, TravelsAsNumbers) {
  const GpuReading known{
      .busy = 0.5, .watts = 300, .celsius = 50, .memory_used = 1, .memory_size = 2, .errors = 3, .slowdowns = 4};
  std::vector<double> values = values_of(GpuReading{});
  const std::vector<double> second = values_of(known);
  values.insert(values.end(), second.begin(), second.end());
  const std::vector<GpuReading> back = readings_of(values);
  ASSERT_EQ(back.size(), 2u);
  EXPECT_FALSE(back[0].known());
  EXPECT_EQ(values_of(back[1]), second);
}

TEST(GpuReading, TheSummaryLeavesOutWhatIsUnknown) {
  EXPECT_FALSE(summary_of({}));
  GpuReading unknown, one, two;
  one.busy = 0.5;
  one.watts = 300;
  two.busy = 1;
  two.celsius = 70;
  one.memory_size = two.memory_size = 1;
  EXPECT_FALSE(summary_of(std::vector{unknown, unknown}));
  const GpuSummary summary = summary_of(std::vector{unknown, one, two}).value();
  EXPECT_EQ(summary.busy, 0.75);
  EXPECT_EQ(summary.watts, 300);
  EXPECT_EQ(summary.celsius, 70);
  EXPECT_TRUE(std::isnan(summary.errors));
}

TEST(GpuReading, SlowdownsHaveNames) {
  EXPECT_THAT(slowdown_names(0x1), testing::IsEmpty()) << "idle";
  EXPECT_THAT(slowdown_names(0x1 | 0x4 | 0x40), testing::ElementsAre("sw_power_cap", "hw_thermal_slowdown"));
}

}  // namespace
}  // namespace trireme
