#include "base/rng.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace trireme {
namespace {

TEST(Philox, GivesTheKnownAnswersOfItsAuthors) {
  // Random123's kat_vectors, philox4x32 with 10 rounds; its key words are low word first.
  EXPECT_EQ(philox(0, {0, 0, 0, 0}), (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(UINT64_MAX, {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(MixKey, DependsOnEveryWordAndTheirOrder) {
  std::set<uint64_t> keys{mix_key(0), mix_key(1), mix_key(0, 0), mix_key(0, 1), mix_key(1, 0), mix_key(1, 1)};
  EXPECT_EQ(keys.size(), 6u);
}

TEST(RandomStream, IsAPureFunctionOfKeyAndIndex) {
  RandomStream whole(mix_key(5));
  std::vector<uint64_t> draws;
  for (int i = 0; i < 10; ++i) draws.push_back(whole.next());
  for (uint64_t first = 0; first < 10; ++first) EXPECT_EQ(RandomStream(mix_key(5), first).next(), draws[first]);
}

TEST(RandomStream, UniformFillsTheUnitInterval) {
  RandomStream stream(mix_key(6));
  constexpr int kDraws = 100'000;
  double sum = 0, squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double u = stream.uniform();
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
    squares += u * u;
  }
  // Four standard errors of the mean of U and of U^2.
  EXPECT_NEAR(sum / kDraws, 0.5, 4 * std::sqrt(1.0 / 12 / kDraws));
  EXPECT_NEAR(squares / kDraws, 1.0 / 3, 4 * std::sqrt(4.0 / 45 / kDraws));
}

TEST(RandomStream, BelowIsUnbiased) {
  RandomStream stream(mix_key(7));
  constexpr int kDraws = 70'000, kBound = 7, kExpected = kDraws / kBound;
  std::vector<int> counts(kBound);
  for (int i = 0; i < kDraws; ++i) ++counts.at(stream.below(kBound));
  double chi_squared = 0;
  for (int count : counts) chi_squared += std::pow(count - kExpected, 2) / kExpected;
  EXPECT_LT(chi_squared, 22.5);  // 6 degrees of freedom, p = 0.001
  EXPECT_EQ(RandomStream(1).below(1), 0u);
}

TEST(NormalAt, HasTheMomentsOfANormal) {
  constexpr int kDraws = 200'000;
  double sum = 0, squares = 0, fourth = 0;
  int beyond = 0;
  for (uint64_t i = 0; i < kDraws; ++i) {
    const double x = normal_at(mix_key(8), i);
    ASSERT_TRUE(std::isfinite(x));
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
    beyond += std::abs(x) > 1.959964;
  }
  EXPECT_NEAR(sum / kDraws, 0, 4 / std::sqrt(kDraws));
  EXPECT_NEAR(squares / kDraws, 1, 4 * std::sqrt(2.0 / kDraws));
  EXPECT_NEAR(fourth / kDraws, 3, 4 * std::sqrt(96.0 / kDraws));
  EXPECT_NEAR(beyond / double{kDraws}, 0.05, 4 * std::sqrt(0.05 * 0.95 / kDraws));
}

TEST(NormalAt, IsAPureFunction) {
  EXPECT_EQ(normal_at(3, 1'000'000'007), normal_at(3, 1'000'000'007));
  EXPECT_NE(normal_at(3, 1), normal_at(3, 2));
  EXPECT_NE(normal_at(3, 1), normal_at(4, 1));
  EXPECT_NE(normal_at(3, 1), normal_at(3, uint64_t{1} << 32 | 1)) << "the high half of the index counts";
}

}  // namespace
}  // namespace trireme
