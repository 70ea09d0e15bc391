#include "comm/scalars.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/support/parallel.h"

namespace trireme {
namespace {

class ScalarsOverRanks : public testing::Test {
 protected:
  int rank() { return test_process().rank(); }
  int size() { return test_process().size(); }
  Scalars scalars_{test_process().world()};
};

TEST_F(ScalarsOverRanks, SumsAreMadeInRankOrder) {
  // In another order these give other bits.
  const auto value = [](int r) { return std::ldexp(1.0 + r, r % 2 == 0 ? 53 : 0) * (r == 2 ? -1 : 1); };
  double expected = value(0);
  for (int r = 1; r < size(); ++r) expected += value(r);
  const double sum = scalars_.sum(value(rank()));
  EXPECT_EQ(std::memcmp(&sum, &expected, sizeof sum), 0);
}

TEST_F(ScalarsOverRanks, ReducesVectorsElementByElement) {
  std::vector<double> d{1.0 * rank(), -1.0 * rank()};
  scalars_.max(d);
  EXPECT_EQ(d, (std::vector<double>{size() - 1.0, 0.0}));
  std::vector<int64_t> i{rank(), 7};
  scalars_.sum(i);
  EXPECT_EQ(i, (std::vector<int64_t>{size() * (size() - 1) / 2, 7 * size()}));
  std::vector<int64_t> m{rank(), -rank()};
  scalars_.min(m);
  EXPECT_EQ(m, (std::vector<int64_t>{0, 1 - size()}));
}

TEST_F(ScalarsOverRanks, ANanOnOneRankIsSeenByAll) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(scalars_.max(rank() == size() - 1 ? nan : 1.0)));
  EXPECT_TRUE(std::isnan(scalars_.max(rank() == 0 ? nan : 1.0)));
  EXPECT_TRUE(std::isnan(scalars_.sum(rank() == 0 ? nan : 1.0)));
}

TEST_F(ScalarsOverRanks, AnyIsTrueForAllWhenItIsForOne) {
  EXPECT_TRUE(scalars_.any(rank() == size() - 1));
  EXPECT_FALSE(scalars_.any(false));
}

TEST_F(ScalarsOverRanks, GathersTextsOfDifferentLengths) {
  const auto texts = scalars_.gather(std::string(static_cast<size_t>(rank()), 'x'));
  ASSERT_EQ(texts.size(), static_cast<size_t>(size()));
  for (size_t r = 0; r < texts.size(); ++r) EXPECT_EQ(texts[r], std::string(r, 'x'));
}

TEST_F(ScalarsOverRanks, BroadcastsATextOfTheRoot) {
  const int root = size() - 1;
  EXPECT_EQ(scalars_.broadcast(rank() == root ? "the secret" : "", root), "the secret");
  EXPECT_EQ(scalars_.broadcast("", root), "");
}

TEST_F(ScalarsOverRanks, DifferingNamesTheMinority) {
  EXPECT_TRUE(scalars_.differing(5).empty());
  const auto ranks = scalars_.differing(rank() == 0 ? 1 : 2);
  if (size() == 2) {
    EXPECT_EQ(ranks, (std::vector<int>{0, 1}));
  } else if (size() > 2) {
    EXPECT_EQ(ranks, std::vector<int>{0});
  }
}

}  // namespace
}  // namespace trireme
