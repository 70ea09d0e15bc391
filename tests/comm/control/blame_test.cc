// Who is to blame, over tables of what rank 0 may know.

#include "comm/control/liveness.h"

#include <gmock/gmock.h>

#include <map>

namespace trireme {
namespace {

using ::testing::HasSubstr;

std::string host_name(int host) { return "h" + std::to_string(host + 1); }

/// `hosts` hosts with so many ranks each, which all wait for each other and made progress `still` seconds ago.
Evidence waiting_job(int hosts, int each = 1, double still = 11) {
  Evidence e;
  for (int rank = 0; rank < hosts * each; ++rank)
    e.ranks.push_back({.host = host_name(rank / each), .waits = true, .still = still, .step = 7});
  e.still = still;
  return e;
}

/// A connection between two hosts; one way: only what `from` sends is lost, which ends TCP both ways.
using Link = std::pair<int, int>;

/// The first rank of each host has tried the first ranks of the other ones but rank 0's, which tried all.
void look(Evidence& e, int each, const std::vector<Link>& cut, const std::vector<int>& frozen = {}) {
  const int hosts = static_cast<int>(e.ranks.size()) / each;
  const auto has = [](const auto& list, auto value) { return std::ranges::find(list, value) != list.end(); };
  for (int from = 0; from < hosts; ++from) {
    if (has(frozen, from)) continue;
    Sighting sighting{.from = from * each};
    for (int to = 1; to < hosts; ++to) {
      if (to == from) continue;
      if (has(cut, Link(from, to)) || has(cut, Link(to, from)))
        sighting.failed.emplace_back(to * each, "Connection timed out");
      else if (!has(frozen, to))
        sighting.answered.push_back(to * each);
    }
    e.sightings.push_back(std::move(sighting));
  }
}

TEST(Blame, EverySingleLinkOfThreeHostsIsNamed) {
  for (const int each : {1, 2, 4}) {
    for (const Link& link : {Link(0, 1), Link(0, 2), Link(1, 2), Link(1, 0), Link(2, 0), Link(2, 1)}) {
      Evidence e = waiting_job(3, each);
      const int low = std::min(link.first, link.second), high = std::max(link.first, link.second);
      // Rank 0 no longer hears who is behind a link of its own.
      for (int i = 0; low == 0 && i < each; ++i) e.ranks[static_cast<size_t>(high * each + i)].silent = 10.5;
      look(e, each, {link});
      if (low == 0) std::erase_if(e.sightings, [&](const Sighting& s) { return s.from == high * each; });
      const auto found = blame(e);
      ASSERT_TRUE(found);
      EXPECT_EQ(found->rank, high * each) << link.first << " " << link.second;
      EXPECT_EQ(found->other, low * each) << link.first << " " << link.second;
    }
  }
}

TEST(Blame, AnyLinkOfManyHostsIsNamed) {
  for (int hosts = 3; hosts <= 7; ++hosts) {
    for (int a = 1; a < hosts; ++a) {
      for (int b = a + 1; b < hosts; ++b) {
        Evidence e = waiting_job(hosts);
        look(e, 1, {{a, b}});
        const auto found = blame(e);
        ASSERT_TRUE(found);
        EXPECT_EQ(std::pair(found->rank, found->other), std::pair(b, a));
        EXPECT_EQ(found->reason, host_name(a) + " cannot reach " + host_name(b) + ": Connection timed out");
      }
    }
  }
}

TEST(Blame, AHostWithoutSeveralOfItsLinksIsToBlameItself) {
  for (int hosts = 4; hosts <= 6; ++hosts) {
    for (int bad = 1; bad < hosts; ++bad) {
      Evidence e = waiting_job(hosts);
      std::vector<Link> cut;
      for (int other = 1; other < hosts; ++other) {
        if (other != bad) cut.emplace_back(bad, other);
      }
      look(e, 1, cut);
      const auto found = blame(e);
      ASSERT_TRUE(found);
      EXPECT_EQ(found->rank, bad);
      EXPECT_EQ(found->other, -1);
      EXPECT_THAT(found->reason, HasSubstr("its host has no connection to h"));
    }
  }
}

TEST(Blame, AHostThatIsCutOffFromAllIsLost) {
  for (int bad = 1; bad < 3; ++bad) {
    Evidence e = waiting_job(3);
    e.ranks[static_cast<size_t>(bad)].silent = 10.5;
    look(e, 1, {{bad, 0}, {bad, 3 - bad}});
    std::erase_if(e.sightings, [&](const Sighting& s) { return s.from == bad; });
    const auto found = blame(e);
    ASSERT_TRUE(found);
    EXPECT_EQ(std::pair(found->rank, found->other), std::pair(bad, -1));
    EXPECT_EQ(found->reason, "no heartbeat for 10.5 s");
  }
}

TEST(Blame, Rank0sOwnHostIsLostIfItHearsNoOther) {
  Evidence e = waiting_job(3);
  e.ranks[1].silent = 10.5;
  e.ranks[2].silent = 9.8;  // its last heartbeat was a little later
  look(e, 1, {{0, 1}, {0, 2}});
  e.sightings.resize(1);
  const auto found = blame(e);
  ASSERT_TRUE(found);
  EXPECT_EQ(std::pair(found->rank, found->other), std::pair(0, -1));
  EXPECT_THAT(found->reason, HasSubstr("none of the 2 other hosts is heard"));
}

TEST(Blame, OfTwoHostsTheSilentOneIsLost) {
  Evidence e = waiting_job(2);
  e.ranks[1].silent = 10.5;
  look(e, 1, {{0, 1}});
  const auto found = blame(e);
  ASSERT_TRUE(found);
  EXPECT_EQ(std::pair(found->rank, found->other), std::pair(1, -1));
}

TEST(Blame, AFrozenRankIsLostAlthoughItsHostAcceptsConnections) {
  Evidence e = waiting_job(3);
  e.ranks[2].silent = 10.5;
  look(e, 1, {}, {2});
  const auto found = blame(e);
  ASSERT_TRUE(found);
  EXPECT_EQ(std::pair(found->rank, found->other), std::pair(2, -1));
}

TEST(Blame, AFrozenRankBesideOneThatIsHeardIsLost) {
  Evidence e = waiting_job(3, 2);
  e.ranks[5].silent = 10.5;
  look(e, 2, {});
  const auto found = blame(e);
  ASSERT_TRUE(found);
  EXPECT_EQ(std::pair(found->rank, found->other), std::pair(5, -1));
}

TEST(Blame, WhoWaitsForNoOtherKeepsThemWaiting) {
  for (int blamed = 0; blamed < 3; ++blamed) {
    Evidence e = waiting_job(3);
    e.ranks[static_cast<size_t>(blamed)].waits = false;
    look(e, 1, {});
    const auto found = blame(e);
    ASSERT_TRUE(found);
    EXPECT_EQ(std::pair(found->rank, found->other), std::pair(blamed, -1));
    EXPECT_EQ(found->reason, "no rank has made progress for 11.0 s");
  }
}

TEST(Blame, NobodyIsToBlameIfAllWaitAndReachEachOther) {
  for (int behind = 0; behind < 3; ++behind) {
    Evidence e = waiting_job(3);
    e.ranks[static_cast<size_t>(behind)].step = 6;  // being behind is not proof: its message may be lost
    look(e, 1, {});
    const auto found = blame(e);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->rank, -1);
    EXPECT_EQ(found->other, -1);
    EXPECT_THAT(found->reason, HasSubstr("every rank waits for others"));
  }
}

TEST(Blame, NobodyIsJudgedBeforeTheTimeouts) {
  Evidence e = waiting_job(3, 1, 9.9);
  look(e, 1, {{1, 2}});
  EXPECT_FALSE(blame(e));
  e = waiting_job(3);
  for (Standing& rank : e.ranks) rank.waits = false;
  look(e, 1, {{1, 2}});
  EXPECT_FALSE(blame(e)) << "nobody waits";
}

TEST(Blame, ALostConnectionIsNamedInASlowPhaseWithoutItsLongTimeout) {
  Evidence e = waiting_job(3);
  e.stall_timeout = 120;
  EXPECT_FALSE(blame(e)) << "a start or a save may take that long";
  look(e, 1, {{1, 2}});
  ASSERT_TRUE(blame(e));
  EXPECT_EQ(blame(e)->rank, 2);
  EXPECT_EQ(blame(e)->other, 1);
}

TEST(Blame, AConnectionIsJudgedOnlyIfRanksWaitAtBothOfItsEnds) {
  Evidence e = waiting_job(4);
  e.ranks[3].waits = false;
  look(e, 1, {{1, 3}});
  ASSERT_TRUE(blame(e));
  EXPECT_EQ(blame(e)->rank, 3);
  EXPECT_EQ(blame(e)->other, -1);
}

TEST(Blame, WhatFailedBeforeTheFirstStepAlreadyIsNoEvidence) {
  Evidence e = waiting_job(3);
  look(e, 1, {{1, 2}});
  e.never = {{1, 2}, {2, 1}};
  ASSERT_TRUE(blame(e));
  EXPECT_EQ(blame(e)->rank, -1);
}

TEST(Blame, TroubleOfARankNamesTheConnectionAtOnceOrNobody) {
  Evidence e = waiting_job(3, 1, 0);
  e.trouble = true;
  look(e, 1, {});
  EXPECT_FALSE(blame(e)) << "the rank's own error says more";
  e.sightings.clear();
  look(e, 1, {{2, 1}});
  ASSERT_TRUE(blame(e));
  EXPECT_EQ(blame(e)->rank, 2);
  EXPECT_EQ(blame(e)->other, 1);
}

TEST(Blame, RanksThatHaveLeftAreIgnored) {
  Evidence e = waiting_job(3);
  for (Standing& rank : e.ranks)
    rank = {.host = rank.host, .joined = false, .waits = true, .silent = 100, .still = 100};
  EXPECT_FALSE(blame(e));
}

TEST(Blame, WhoNoLongerHearsRank0AsksTheOthers) {
  using Reports = std::vector<WitnessReport>;
  struct Case {
    Reports reports;
    std::pair<int, int> expected;
  };
  for (const auto& [reports, expected] : {Case{{}, {0, -1}},             // two hosts, or one: nobody to ask
                                          Case{{{true, 0.4}}, {2, 0}},   // the other one hears it
                                          Case{{{true, 5.0}}, {0, -1}},  // nobody does
                                          Case{{{false, 0}}, {2, -1}},   // nobody answers: this host is cut off
                                          Case{{{false, 0}, {true, 4.9}}, {0, -1}},     //
                                          Case{{{true, 5.2}, {true, 0.1}}, {2, 0}}}) {  //
    const Blame found = blame_for_silent_hub(2, 10.2, 5.1, reports);
    EXPECT_EQ(std::pair(found.rank, found.other), expected) << found.reason;
    EXPECT_THAT(found.reason, HasSubstr("no heartbeat for 10.2 s"));
  }
}

}  // namespace
}  // namespace trireme
