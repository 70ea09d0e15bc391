#include "train/guard/straggler.h"

#include <gtest/gtest.h>

#include <vector>

namespace trireme {
namespace {

std::optional<Straggler> find(StragglerWatch& watch, const std::vector<double>& busy, int64_t steps = 100) {
  return watch.find(busy, steps);
}

TEST(StragglerWatch, ReportsARankOnceThatIsSlowTwiceInARow) {
  StragglerWatch watch;
  EXPECT_FALSE(find(watch, {0.1, 0.2, 0.11}));
  const auto slow = find(watch, {0.1, 0.22, 0.11});
  ASSERT_TRUE(slow);
  EXPECT_EQ(slow->rank, 1);
  EXPECT_DOUBLE_EQ(slow->busy, 0.22);
  EXPECT_DOUBLE_EQ(slow->others, 0.11);
  EXPECT_DOUBLE_EQ(slow->lost, 0.5);
  EXPECT_FALSE(find(watch, {0.1, 0.2, 0.1}));
}

TEST(StragglerWatch, ReportsAgainAfterTheRankWasFastInBetween) {
  StragglerWatch watch;
  find(watch, {0.1, 0.2});
  EXPECT_TRUE(find(watch, {0.1, 0.2}));
  EXPECT_FALSE(find(watch, {0.1, 0.1}));
  EXPECT_FALSE(find(watch, {0.1, 0.2}));
  EXPECT_TRUE(find(watch, {0.1, 0.2}));
}

TEST(StragglerWatch, LetsSmallDifferencesAndChangingRanksPass) {
  StragglerWatch watch;
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(find(watch, {0.1, 0.14, 0.1}));
    EXPECT_FALSE(find(watch, {0.1, 0.2, 0.1}));
    EXPECT_FALSE(find(watch, {0.1, 0.1, 0.2}));
  }
}

TEST(StragglerWatch, SkipsIntervalsThatAreTooShort) {
  StragglerWatch watch;
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(find(watch, {0.001, 0.009}, 100));
}

}  // namespace
}  // namespace trireme
