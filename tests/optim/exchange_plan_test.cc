#include "optim/exchange_plan.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(ExchangePlan, EveryElementTravelsExactlyOnce) {
  for (const int ranks : {2, 3, 4, 7}) {
    for (const int64_t count : {1, 31, 1000, 4096, 10'007}) {
      for (const int64_t bucket : {1, 50, 999, 100'000}) {
        const int64_t begin = count / 3;
        std::vector<int> seen(static_cast<size_t>(count)), expected(static_cast<size_t>(count), 1);
        std::fill_n(expected.begin(), begin, 0);
        for (const ExchangeChunk& chunk : plan_exchange({begin, count}, bucket, 64, ranks)) {
          for (int r = 0; r < ranks; ++r) {
            ASSERT_LE(chunk.length(r), chunk.limit);
            ASSERT_LE(chunk.limit, 64);
            for (int64_t i = 0; i < chunk.length(r); ++i) ++seen[static_cast<size_t>(chunk.begin(r) + i)];
          }
        }
        EXPECT_EQ(seen, expected) << ranks << " " << count << " " << bucket;
      }
    }
  }
}

TEST(ExchangePlan, BucketsFollowEachOther) {
  std::vector<int64_t> ends;
  for (const ExchangeChunk& chunk : plan_exchange({100, 900}, 250, 1000, 2)) ends.push_back(chunk.bucket_end);
  EXPECT_EQ(ends, (std::vector<int64_t>{350, 600, 850, 900}));
}

TEST(ExchangePlan, SlicesBeginOnWholeLines) {
  for (const ExchangeChunk& chunk : plan_exchange({0, 10'000}, 10'000, 100'000, 3)) {
    EXPECT_EQ(chunk.begin(1) % 32, 0);
    EXPECT_EQ(chunk.begin(2) % 32, 0);
  }
}

}  // namespace
}  // namespace trireme
