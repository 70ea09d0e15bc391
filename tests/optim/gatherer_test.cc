#include "optim/shared_weights.h"

#include <gtest/gtest.h>

#include <numeric>

#include "exchange/message_group.h"
#include "tests/support/exchange.h"
#include "tests/support/expect_error.h"
#include "tests/support/local_ranks.h"

namespace trireme {
namespace {

TEST(Gatherer, EveryoneGetsWhatEachRankOwnsInAnyType) {
  std::vector<int64_t> borders(101);
  for (size_t i = 0; i < borders.size(); ++i) borders[i] = static_cast<int64_t>(37 * i);
  for (const int ranks : {1, 2, 3, 4}) {
    const Ownership ownership(borders, ranks, 1000, 150);
    run_local(ranks, [&](RankContext& rank) {
      const auto group = make_stream_group(rank.world, *test_ops(), {});
      Gatherer gatherer(*group, ownership);
      const auto gathered = [&](auto zero) {
        std::vector<decltype(zero)> flat(3700, static_cast<decltype(zero)>(-1));
        for (const auto& [begin, end] : ownership.owned_by(rank.rank()))
          std::iota(flat.begin() + begin, flat.begin() + end, static_cast<decltype(zero)>(begin));
        gatherer.gather(View(std::span(flat), {3700}), {}).wait();
        std::vector<decltype(zero)> expected(flat.size());
        std::iota(expected.begin(), expected.end(), zero);
        EXPECT_EQ(flat, expected) << ranks << " ranks";
      };
      gathered(0.0f);
      gathered(int16_t{0});
      int64_t owned = 0;
      for (const auto& [begin, end] : ownership.owned_by(rank.rank())) owned += end - begin;
      EXPECT_EQ(gatherer.bytes_sent(), static_cast<uint64_t>(owned * 6 * (ranks - 1)));
    });
  }
}

TEST(Gatherer, NeedsOneOwnerPerRank) {
  const auto single = make_single();
  const auto group = make_stream_group(*single, *test_ops(), {});
  const Ownership ownership(std::vector<int64_t>{0, 10}, 2, 10, 10);
  EXPECT_ERROR(Gatherer(*group, ownership), ErrorKind::shape,
               "a gatherer got an ownership of 2 ranks, but its group has 1");
}

}  // namespace
}  // namespace trireme
