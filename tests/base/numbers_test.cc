#include "base/numbers.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(Divisors, AreAllOfThemAscending) {
  EXPECT_EQ(divisors(1), std::vector<int64_t>{1});
  EXPECT_EQ(divisors(36), (std::vector<int64_t>{1, 2, 3, 4, 6, 9, 12, 18, 36}));
  EXPECT_EQ(divisors(13), (std::vector<int64_t>{1, 13}));
}

TEST(Divisors, TheNearestInRatioAreShown) {
  EXPECT_EQ(near_divisors(16, 3), "1, 2, 4, 8, 16");
  EXPECT_EQ(near_divisors(720, 7), "4, 5, 6, 8, 9, 10, 12, 15");
}

}  // namespace
}  // namespace trireme
