#include "comm/shared_region.h"

#include <gtest/gtest.h>

#include "tests/support/local_ranks.h"

namespace trireme {
namespace {

TEST(SharedRegion, EveryRankReadsWhatTheOthersWrote) {
  run_local(3, [](RankContext& rank) {
    const auto region = SharedRegion::make(rank.world, 10'000);
    ASSERT_TRUE(region);
    rank.world.barrier().wait("the others");
    for (int r = 0; r < 3; ++r) {
      ASSERT_GE(region->of(r).size(), 10'000u);
      EXPECT_EQ(region->of(r)[0], std::byte{0});  // the key is cleared
    }
    region->of(rank.rank())[9'999] = static_cast<std::byte>(rank.rank() + 1);
    rank.world.barrier().wait("the others");
    for (int r = 0; r < 3; ++r) EXPECT_EQ(region->of(r)[9'999], static_cast<std::byte>(r + 1));
  });
}

TEST(SharedRegion, IsThereForAllRanksOrForNone) {
  run_local(3, [](RankContext& rank) {
    // The memory at the announced place has another size: it is not the other rank's.
    EXPECT_FALSE(SharedRegion::make(rank.world, rank.rank() == 1 ? 100'000 : 10'000));
    EXPECT_TRUE(SharedRegion::make(rank.world, 10'000));
  });
}

}  // namespace
}  // namespace trireme
