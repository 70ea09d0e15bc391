#include "base/exact_sum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace trireme {
namespace {

double sum_of(const std::vector<double>& values) {
  ExactSum sum;
  for (const double value : values) sum.add(value);
  return sum.value();
}

TEST(ExactSum, LosesNothingUntilItIsRoundedOnce) {
  EXPECT_EQ(sum_of({}), 0);
  EXPECT_EQ(sum_of({1e300, 1, -1e300}), 1);
  EXPECT_EQ(sum_of({0x1p53, 1, 1}), 0x1p53 + 2);
  EXPECT_EQ(sum_of({0x1p53, 1}), 0x1p53) << "a tie goes to the even neighbour";
  EXPECT_EQ(sum_of({0x1p53, 1, 0x1p-1000}), 0x1p53 + 2) << "a little above the tie";
  EXPECT_EQ(sum_of({-0x1p53, -1, -0x1p-1000}), -0x1p53 - 2);
  constexpr double kLeast = std::numeric_limits<double>::denorm_min(), kMost = std::numeric_limits<double>::max();
  EXPECT_EQ(sum_of({kLeast, kLeast, kLeast}), 3 * kLeast);
  EXPECT_EQ(sum_of({-kLeast}), -kLeast);
  EXPECT_EQ(sum_of({kMost, kMost, -kMost}), kMost);
  EXPECT_EQ(sum_of({kMost, kMost}), HUGE_VAL);
}

TEST(ExactSum, OfSingleValuesAreTheValues) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 20'000; ++i) {
    const double value = std::bit_cast<double>(random());
    if (!std::isfinite(value)) continue;
    ASSERT_EQ(sum_of({value}), value);
  }
}

TEST(ExactSum, OfRanksAddDigitByDigitInAnyOrder) {
  std::mt19937_64 random(6);
  std::vector<double> values;
  for (int i = 0; i < 3000; ++i)
    values.push_back(std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 300) - 150));
  long double plain = 0;
  for (const double value : values) plain += static_cast<long double>(value);
  EXPECT_NEAR(sum_of(values), static_cast<double>(plain), 1e-15 * static_cast<double>(plain));
  for (const size_t ranks : {2, 7, 64}) {
    std::ranges::shuffle(values, random);
    std::vector<ExactSum> of_rank(ranks);
    for (size_t i = 0; i < values.size(); ++i) of_rank[i % ranks].add(values[i]);
    std::vector<int64_t> digits(ExactSum::kDigits);
    for (const ExactSum& own : of_rank) {
      for (size_t d = 0; d < digits.size(); ++d) digits[d] += own.digits()[d];
    }
    EXPECT_EQ(ExactSum(std::span(digits).first<ExactSum::kDigits>()).value(), sum_of(values)) << ranks;
  }
}

TEST(ExactSum, WhatIsNotFiniteStaysSo) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(sum_of({1, HUGE_VAL}), HUGE_VAL);
  EXPECT_EQ(sum_of({1, -HUGE_VAL}), -HUGE_VAL);
  EXPECT_TRUE(std::isnan(sum_of({HUGE_VAL, -HUGE_VAL})));
  EXPECT_TRUE(std::isnan(sum_of({1, kNan})));
}

}  // namespace
}  // namespace trireme
