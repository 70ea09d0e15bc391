#include "optim/reducer.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/exchange.h"
#include "tests/support/local_ranks.h"

namespace trireme {
namespace {

// One message or a part of one, whole pieces, several pieces and a part.
TEST(TiedSum, BothStagesGetTheSumOfAnyLength) {
  for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{14336}, int64_t{20000}, int64_t{1} << 19,
                              (int64_t{1} << 19) + 1, (int64_t{1} << 20) + 14337, int64_t{1} << 21}) {
    run_local(2, [&](RankContext& rank) {
      TiedSum sum(rank.world, *test_ops());
      std::vector<float> own(static_cast<size_t>(count)), expected(own.size());
      for (size_t i = 0; i < own.size(); ++i) {
        const float first = static_cast<float>(i % 1000), second = static_cast<float>(i % 77) / 4;
        own[i] = rank.rank() == 0 ? first : second;
        expected[i] = first + second;
      }
      Context context{.threads = 1, .stream = &test_ops()->device().stream()};
      sum.add_other(context, View(std::span(own), {count}));
      EXPECT_TRUE(own == expected) << count;
    });
  }
}

}  // namespace
}  // namespace trireme
