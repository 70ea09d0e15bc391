#include "comm/scalars.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/support/local_ranks.h"

namespace trireme {
namespace {

/// Values whose sum depends on the order of additions.
double value_of(int rank) { return std::ldexp(1.0 + rank, rank % 2 == 0 ? 53 : 0) * (rank == 2 ? -1 : 1); }

TEST(ScalarsOverLocalRanks, GiveOneProcesssBitsOnEveryRank) {
  for (const int size : {1, 2, 3, 4}) {
    double expected = value_of(0);
    for (int r = 1; r < size; ++r) expected += value_of(r);
    run_local(size, [&](RankContext& rank) {
      Scalars scalars(rank.world);
      const double sum = scalars.sum(value_of(rank.rank()));
      EXPECT_EQ(std::memcmp(&sum, &expected, sizeof sum), 0) << sum << " expected " << expected;
      EXPECT_EQ(scalars.max(int64_t{rank.rank()}), size - 1);
      EXPECT_TRUE(scalars.any(rank.rank() == size - 1));
      EXPECT_EQ(scalars.broadcast(rank.rank() == size - 1 ? "the secret" : "", size - 1), "the secret");
      const auto texts = scalars.gather(std::string(static_cast<size_t>(rank.rank()), 'x'));
      for (size_t r = 0; r < texts.size(); ++r) EXPECT_EQ(texts[r], std::string(r, 'x'));
    });
  }
}

TEST(ScalarsOverLocalRanks, NeedNoProgressBesideTheirOwn) {
  run_local(4,
            [](RankContext& rank) {
              Scalars scalars(rank.world);
              for (int64_t i = 0; i < 20; ++i) EXPECT_EQ(scalars.sum(i * rank.rank()), 6 * i);
            },
            {.delay = random_delays(1, std::chrono::microseconds(200)), .rendezvous = true, .progress_in_test = true});
}

}  // namespace
}  // namespace trireme
