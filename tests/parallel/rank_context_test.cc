#include "comm/rank_context.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/log.h"
#include "comm/scalars.h"
#include "tests/support/parallel.h"

namespace trireme {
namespace {

TEST(RankContext, OfAProcessSaysWhatTheProcessKnows) {
  Process& process = test_process();
  bool stop = false;
  const RankContext rank = rank_context(process, 3, [&] { return stop; });
  EXPECT_EQ(&rank.world, &process.world());
  EXPECT_EQ(rank.rank(), process.rank());
  EXPECT_EQ(rank.size(), process.size());
  EXPECT_EQ(rank.host, process.host());
  EXPECT_EQ(rank.local_rank(), process.local_rank());
  EXPECT_TRUE(rank.one_host());  // tests run on one host
  EXPECT_EQ(rank.heartbeat, &process.heartbeat());
  EXPECT_EQ(rank.threads, 3);
  EXPECT_FALSE(rank.stop_requested());
  stop = true;
  EXPECT_TRUE(rank.stop_requested());
  EXPECT_EQ(rank.log_name, process.size() > 1 ? process.host() + " " + std::to_string(process.rank()) : "");
}

TEST(RankContext, ItsGroupsAreTheWorldsRanksAndReportWhereTheWorldDoes) {
  const RankContext rank = rank_context(test_process(), 1, [] { return false; });
  const auto group = rank.reporting_group();
  EXPECT_NE(group.get(), &rank.world);
  EXPECT_EQ(group->rank(), rank.rank());
  EXPECT_EQ(group->heartbeat(), &test_process().heartbeat());
  Scalars scalars(*group);
  EXPECT_EQ(scalars.sum(int64_t{1}), rank.size());
}

}  // namespace
}  // namespace trireme
