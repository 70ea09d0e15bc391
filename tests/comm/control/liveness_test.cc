#include "comm/control/liveness.h"

#include <gmock/gmock.h>

namespace trireme {
namespace {

using ::testing::HasSubstr;

/// Three ranks at chosen times.
class LivenessRules : public ::testing::Test {
 protected:
  LivenessRules() {
    for (int r = 0; r < 3; ++r) liveness_.join(r, "node" + std::to_string(r), at(0));
  }
  static Liveness::Time at(double seconds) {
    return Liveness::Time() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }
  static RankState computing(uint64_t moves, double cpu) {
    RankState state;
    state.phase = Phase::step;
    state.step = 56;
    state.moves = moves;
    state.cpu_seconds = cpu;
    return state;
  }
  static RankState waiting(uint64_t moves) {
    RankState state = computing(moves, 0);
    state.collective = "the sum of gradients";
    state.bytes = 1000;
    state.chunks = 3;
    state.seconds = 9;
    return state;
  }
  Liveness liveness_{3, 10, at(0)};
};

TEST_F(LivenessRules, NameARankWithoutHeartbeat) {
  for (const int r : {0, 2}) liveness_.heard(r, computing(1, 1), at(10.5));
  EXPECT_FALSE(liveness_.judge(at(9.9)));
  const auto loss = liveness_.judge(at(10.5));
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->rank, 1);
  EXPECT_EQ(loss->host, "node1");
  EXPECT_EQ(loss->reason, "no heartbeat for 10.5 s");
}

TEST_F(LivenessRules, ForgiveTheTimeInWhichTheJudgeItselfDidNotRun) {
  liveness_.slept(std::chrono::seconds(60));
  EXPECT_FALSE(liveness_.judge(at(69)));
  EXPECT_TRUE(liveness_.judge(at(71)));
}

TEST_F(LivenessRules, DoNotJudgeWhoHasLeftOrNotJoined) {
  for (int r = 0; r < 3; ++r) liveness_.leave(r);
  EXPECT_FALSE(liveness_.judge(at(1000)));
}

TEST_F(LivenessRules, NameTheOneWhoKeepsTheOthersWaiting) {
  for (int t = 0; t <= 11; ++t) {
    for (const int r : {0, 2}) liveness_.heard(r, waiting(5), at(t));
    liveness_.heard(1, computing(4, 1.5), at(t));
    EXPECT_EQ(liveness_.judge(at(t)).has_value(), t > 10) << t;
  }
  const auto loss = liveness_.judge(at(11));
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->rank, 1);
  EXPECT_THAT(loss->reason, HasSubstr("no rank has made progress for 11.0 s"));
}

TEST_F(LivenessRules, LetARankComputeForAnyTime) {
  for (int t = 0; t <= 1000; ++t) {
    for (const int r : {0, 2}) liveness_.heard(r, waiting(5), at(t));
    liveness_.heard(1, computing(4, t), at(t));
    ASSERT_FALSE(liveness_.judge(at(t))) << t;
  }
}

TEST_F(LivenessRules, LetAnExchangeTakeAnyTimeWhileChunksArrive) {
  for (int t = 0; t <= 1000; ++t) {
    for (int r = 0; r < 3; ++r) liveness_.heard(r, waiting(static_cast<uint64_t>(r == 2 ? t / 8 : 0)), at(t));
    ASSERT_FALSE(liveness_.judge(at(t))) << t;
  }
}

TEST_F(LivenessRules, GiveStartAndSavesLonger) {
  for (const Phase phase : {Phase::start, Phase::save}) {
    Liveness liveness(2, 10, at(0));
    for (int r = 0; r < 2; ++r) liveness.join(r, "node", at(0));
    const auto hear = [&](double t) {
      RankState state = waiting(1);
      state.phase = phase;
      for (int r = 0; r < 2; ++r) liveness.heard(r, state, at(t));
    };
    for (int t = 0; t <= 119; ++t) {
      hear(t);
      ASSERT_FALSE(liveness.judge(at(t))) << t;
    }
    hear(121.5);
    EXPECT_TRUE(liveness.judge(at(121.5)));
  }
}

TEST_F(LivenessRules, LetTheHostsTryTheirConnectionsAfterHalfOfTheTimeoutIfNobodyIsKnownToBeBusy) {
  const auto suspects = [&](double t, bool all_wait, double last_heard) {
    Liveness liveness(3, 10, at(0));
    for (int r = 0; r < 3; ++r) liveness.join(r, "node", at(0));
    for (int r = 0; r < 3; ++r) {
      const RankState state = r > 0 || all_wait ? waiting(1) : computing(1, 0);
      for (const double heard : {0.0, r == 2 ? last_heard : t}) liveness.heard(r, state, at(heard));
    }
    return liveness.suspects(liveness.evidence(at(t)));
  };
  EXPECT_FALSE(suspects(4.9, true, 4.9));
  EXPECT_TRUE(suspects(5.1, true, 5.1)) << "all wait";
  EXPECT_FALSE(suspects(9, false, 9)) << "rank 0 reads or writes";
  EXPECT_TRUE(suspects(9, false, 3.9)) << "rank 2 is silent";
}

TEST_F(LivenessRules, AJobInWhichNobodyWaitsIsNotJudgedByItsMoves) {
  for (int t = 0; t <= 1000; ++t) {
    for (int r = 0; r < 3; ++r) liveness_.heard(r, computing(1, 0), at(t));
    ASSERT_FALSE(liveness_.judge(at(t))) << t;
  }
}

TEST_F(LivenessRules, DescribeTheLossInFull) {
  liveness_.heard(1, waiting(5), at(1));
  EXPECT_EQ(describe(liveness_.closed(1, at(1.4))),
            "rank 1 on node1 was lost (its connection closed 0.4 s after its last heartbeat) in step 57, waiting for "
            "the sum of gradients (1000 bytes, 3 chunks done) for 9.0 s");
}

}  // namespace
}  // namespace trireme
