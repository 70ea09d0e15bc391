#include "comm/local/local_group.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <thread>

#include "comm/heartbeat.h"
#include "tests/support/expect_error.h"
#include "tests/support/local_ranks.h"
#include "tests/support/vector_view.h"

namespace trireme {
namespace {

using std::chrono::microseconds;

template <class T>
std::string error_of(T call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

/// Members driven by one thread, so that the order of events is fixed.
class LocalGroupTest : public testing::Test {
 protected:
  void make(int size, LocalOptions options = {}) {
    options.hosts.clear();
    for (int r = 0; r < size; ++r) options.hosts.push_back(fmt::format("node{}", r));
    options.live = live_;
    members_ = make_local_group(size, std::move(options));
  }
  LocalCommunicator& member(size_t rank) { return *members_[rank]; }

  const std::shared_ptr<std::atomic<int64_t>> live_ = std::make_shared<std::atomic<int64_t>>(0);
  std::vector<std::unique_ptr<LocalCommunicator>> members_;
  std::vector<float> a_ = {1, 2}, b_ = {3, 4}, c_ = {5, 6};
};

TEST_F(LocalGroupTest, ASendCompletesImmediatelyAndFreesItsBuffer) {
  make(2);
  Handle departure = member(0).send(view(a_), 1, 5);
  EXPECT_TRUE(departure.test());
  a_ = {-1, -1};
  member(1).receive(view(b_), 0, 5).wait("test");
  EXPECT_EQ(b_, (std::vector<float>{1, 2}));
}

TEST_F(LocalGroupTest, ARendezvousSendIsDoneOnceItsReceiveIsPosted) {
  make(2, {.rendezvous = true});
  Handle departure = member(0).send(view(a_), 1, 5);
  EXPECT_FALSE(departure.test());
  Handle other = member(1).receive(view(c_), 0, 6);  // of another tag
  EXPECT_FALSE(departure.test());
  Handle arrival = member(1).receive(view(b_), 0, 5);
  EXPECT_TRUE(departure.test());
  EXPECT_TRUE(arrival.test());
  EXPECT_EQ(b_, a_);
  other.abandon();
}

TEST_F(LocalGroupTest, AResultIsWrittenByItsOwnRankOnly) {
  make(2);
  Handle first = member(0).all_reduce(view(a_), Reduction::sum),
         second = member(1).all_reduce(view(b_), Reduction::sum);
  EXPECT_EQ(a_, (std::vector<float>{1, 2}));
  EXPECT_TRUE(first.test());
  EXPECT_EQ(a_, (std::vector<float>{4, 6}));
  EXPECT_EQ(b_, (std::vector<float>{3, 4}));
  EXPECT_TRUE(second.test());
  EXPECT_EQ(b_, a_);
}

TEST_F(LocalGroupTest, WithProgressInTestNothingMovesBeforeEveryRankThatWaitsLooks) {
  make(3, {.rendezvous = true, .progress_in_test = true});
  Handle departure = member(0).send(view(a_), 1, 0), arrival = member(1).receive(view(b_), 0, 0);
  EXPECT_FALSE(arrival.test());
  EXPECT_FALSE(arrival.test());  // however often it polls itself
  EXPECT_TRUE(departure.test());
  EXPECT_TRUE(arrival.test());
  Handle barriers[] = {member(0).barrier(), member(1).barrier(), member(2).barrier()};
  EXPECT_FALSE(barriers[0].test());
  EXPECT_FALSE(barriers[1].test());
  Handle elsewhere = member(2).receive(view(c_), 0, 9);
  EXPECT_FALSE(elsewhere.test());  // this poll completes the barrier, too
  EXPECT_TRUE(barriers[0].test());
  EXPECT_TRUE(barriers[1].test());
  EXPECT_TRUE(barriers[2].test());
  elsewhere.abandon();
}

TEST_F(LocalGroupTest, ADelayedRankIsLateAloneAndItsResultWithIt) {
  std::vector<int64_t> numbers;
  make(2, {.delay = [&](const LocalCall& call) {
         if (call.rank == 1) numbers.push_back(call.number);
         return call.rank == 1 && call.name == "all_reduce" ? std::chrono::hours(1) : microseconds(0);
       }});
  Handle barriers[] = {member(0).barrier(), member(1).barrier()};
  for (Handle& barrier : barriers) barrier.wait("test");
  Handle punctual = member(0).all_reduce(view(a_), Reduction::sum),
         late = member(1).all_reduce(view(b_), Reduction::sum);
  EXPECT_TRUE(punctual.test());
  EXPECT_FALSE(late.test());
  EXPECT_EQ(a_, (std::vector<float>{4, 6}));
  EXPECT_EQ(b_, (std::vector<float>{3, 4}));
  EXPECT_EQ(numbers, (std::vector<int64_t>{0, 1}));
  late.abandon();
}

TEST(RandomDelays, AreAPureFunctionOfSeedRankAndCallWithinTheirBounds) {
  const LocalDelay delay = random_delays(5, microseconds(100)), other = random_delays(6, microseconds(100));
  microseconds least{100}, most{0};
  int differing = 0;
  for (int64_t i = 0; i < 200; ++i) {
    const LocalCall call{static_cast<int>(i % 3), "send", i};
    EXPECT_EQ(delay(call), delay(call));
    if (delay(call) != other(call)) ++differing;
    least = std::min(least, delay(call));
    most = std::max(most, delay(call));
  }
  EXPECT_LT(least, microseconds(10));
  EXPECT_GT(most, microseconds(90));
  EXPECT_LE(most, microseconds(100));
  EXPECT_GT(differing, 150);
}

TEST_F(LocalGroupTest, CallsThatDoNotFitAreNamedToEveryRank) {
  make(2);
  Handle reduction = member(0).all_reduce(view(a_), Reduction::sum), barrier = member(1).barrier();
  const std::string text =
      "rank 0 on node0 called all_reduce (sum) of 2 f32 but rank 1 on node1 called barrier; every rank must issue the "
      "same "
      "calls in the same order";
  EXPECT_ERROR(reduction.wait("test"), ErrorKind::comm, text);
  EXPECT_ERROR(barrier.wait("test"), ErrorKind::comm, text);
  Handle departure = member(1).send(view(a_), 0, 3),
         arrival = member(0).receive(View(a_.data(), DType::f32, Shape{1}), 1, 3);
  EXPECT_ERROR(arrival.wait("test"), ErrorKind::comm,
               "rank 1 on node1 called send of 2 f32 but rank 0 on node0 called receive of 1 f32; both sides of a "
               "message must name the same type and length");
  EXPECT_TRUE(departure.test());
}

TEST_F(LocalGroupTest, ATagThatMpiMayNotHaveIsRefused) {
  make(1);
  EXPECT_ERROR(member(0).send(view(a_), 0, 32'768), ErrorKind::shape, "send: got tag 32768, expected 0 to 32767");
  EXPECT_ERROR(member(0).receive(view(a_), 0, -1), ErrorKind::shape, "receive: got tag -1, expected 0 to 32767");
}

TEST_F(LocalGroupTest, ARevokedGroupFailsEveryPendingAndLaterCallNamingTheRank) {
  make(3);
  Handle done = member(0).send(view(a_), 1, 0), pending = member(0).barrier(), also = member(1).receive(view(b_), 2, 4);
  EXPECT_TRUE(done.test());
  member(1).revoke(2, "its process was killed");
  member(0).revoke(1, "a later reason");
  const std::string text =
      "rank 2 on node2 was lost: its process was killed; this group has ended, make a new one of the remaining ranks";
  EXPECT_ERROR(pending.wait("test"), ErrorKind::peer, "barrier: " + text);
  EXPECT_ERROR(also.wait("test"), ErrorKind::peer, "receive of 2 f32: " + text);
  for (size_t r = 0; r < 3; ++r) {
    EXPECT_ERROR(member(r).all_reduce(view(a_), Reduction::max), ErrorKind::peer, "all_reduce (max) of 2 f32: " + text);
    EXPECT_ERROR(member(r).split(0, 0), ErrorKind::peer, "split: " + text);
  }
  EXPECT_ERROR(member(0).revoke(3, ""), ErrorKind::shape, "revoke: got rank 3, expected 0 to 2");
}

TEST(LocalGroup, GroupsSplitFromARevokedOneFailAndThoseItWasSplitFromDoNot) {
  LocalOptions options;
  options.hosts = {"a", "b", "c", "d"};
  run_local(
      4,
      [](RankContext& rank) {
        const auto half = rank.world.split(rank.rank() / 2, rank.rank());
        const auto inner = half->split(0, 0);
        rank.world.barrier().wait("test");
        if (rank.rank() == 2) dynamic_cast<LocalCommunicator&>(*half).revoke(1, "it hangs");
        rank.world.barrier().wait("test");
        const std::string failure = error_of([&] { inner->barrier().wait("test"); });
        if (rank.rank() < 2) {
          EXPECT_EQ(failure, "no error");
        } else {
          EXPECT_EQ(
              failure,
              "barrier: rank 3 on d was lost: it hangs; this group has ended, make a new one of the remaining ranks");
        }
        rank.world.barrier().wait("test");
      },
      options);
}

TEST_F(LocalGroupTest, AMemberDestroyedByAnExceptionIsLost) {
  make(2);
  Handle pending = member(0).barrier();
  try {
    const auto lost = std::move(members_[1]);
    throw std::runtime_error("out of luck");
  } catch (const std::runtime_error&) {
  }
  EXPECT_ERROR(pending.wait("test"), ErrorKind::peer,
               "barrier: rank 1 on node1 was lost: it left the group because of an exception; ");
}

TEST_F(LocalGroupTest, AnExceptionBetweenStartAndWaitFreesNoBufferThatIsStillWritten) {
  make(2);
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    member(0).send(view(a_), 1, 5).wait("test");
  });
  try {
    const Handle arrival = member(1).receive(view(b_), 0, 5);
    throw std::runtime_error("between start and wait");
  } catch (const std::runtime_error&) {
    EXPECT_EQ(b_, (std::vector<float>{1, 2})) << "the message arrived before the buffer could be freed";
  }
  late.join();
}

TEST_F(LocalGroupTest, AMemberThatHasLeftIsMissedOnlyByWhatNeedsIt) {
  make(3);
  member(2).send(view(a_), 0, 1).wait("test");
  Handle barriers[] = {member(0).barrier(), member(1).barrier(), member(2).barrier()};
  barriers[2].wait("test");
  members_[2].reset();
  barriers[0].wait("test");
  barriers[1].wait("test");
  member(0).receive(view(b_), 2, 1).wait("test");
  EXPECT_EQ(b_, a_);
  member(0).send(view(c_), 1, 1).wait("test");
  member(1).receive(view(b_), 0, 1).wait("test");
  EXPECT_EQ(b_, c_);
  EXPECT_ERROR(member(0).receive(view(b_), 2, 1).wait("test"), ErrorKind::peer,
               "receive of 2 f32: rank 2 on node2 has left the group");
  EXPECT_ERROR(member(1).barrier().wait("test"), ErrorKind::peer, "barrier: rank 2 on node2 has left the group");
}

TEST_F(LocalGroupTest, ACallThatARankCancelsIsNeverReadAndFailsForTheOthers) {
  make(2, {.rendezvous = true});
  auto gone = std::make_unique<std::vector<float>>(2, 9.0f);
  Handle departure = member(0).send(view(*gone), 1, 1), reduction = member(0).all_reduce(view(*gone), Reduction::sum);
  Handle arrival = member(0).receive(view(*gone), 1, 2);
  departure.abandon();
  reduction.abandon();
  arrival.abandon();
  gone.reset();  // the address sanitizer finds later reads
  Handle next = member(0).send(view(a_), 1, 1);
  member(1).receive(view(b_), 0, 1).wait("test");
  next.wait("test");
  EXPECT_EQ(b_, a_);  // the first one was withdrawn
  EXPECT_ERROR(member(1).all_reduce(view(b_), Reduction::sum).wait("test"), ErrorKind::peer,
               "all_reduce (sum) of 2 f32: rank 0 on node0 has abandoned it");
  Handle lonely = member(1).send(view(a_), 0, 2);
  EXPECT_FALSE(lonely.test());
  lonely.abandon();
}

TEST_F(LocalGroupTest, AThousandGroupsAndSplitsLeakNothing) {
  for (int i = 0; i < 1000; ++i) {
    make(2, {.rendezvous = i % 2 == 0});
    Handle handles[] = {member(0).send(view(a_), 1, 0), member(1).receive(view(b_), 0, 0), member(0).barrier(),
                        member(1).barrier()};
    EXPECT_GT(*live_, 0);
    for (Handle& handle : handles) handle.wait("test");
    members_.clear();
    ASSERT_EQ(*live_, 0) << "after group " << i;
  }
  LocalOptions options;
  options.live = live_;
  int64_t most = 0;
  run_local(
      3,
      [&](RankContext& rank) {
        std::vector<float> x(4);
        for (int i = 0; i < 1000; ++i) {
          const auto part = rank.world.split((rank.rank() + i) % 2, 0);
          const auto again = part->split(0, i);
          again->all_reduce(view(x), Reduction::sum).wait("test");
          if (rank.rank() == 0) most = std::max(most, live_->load());
        }
      },
      options);
  EXPECT_EQ(*live_, 0);
  // World, two parts and two more, three members each, their operations; two rounds may overlap.
  EXPECT_LT(most, 100);
}

TEST(LocalGroup, NeedsANameForEveryRankOrNone) {
  EXPECT_ERROR(make_local_group(3, {.hosts = {"a", "b"}}), ErrorKind::config,
               "a group of 3 local ranks with 2 host names: give at least one rank, and a name for each or none");
  EXPECT_ERROR(make_local_group(0), ErrorKind::config, "a group of 0 local ranks");
}

TEST(LocalGroup, ARankContextKnowsItsPlaceOnItsHost) {
  const auto members = make_local_group(4, {.hosts = {"x", "y", "x", "x"}});
  Heartbeat progress;
  const RankContext last = rank_context(*members[3], &progress), alone = rank_context(*members[1], nullptr);
  EXPECT_EQ(last.host, "x");
  EXPECT_EQ(last.local_rank(), 2);
  EXPECT_EQ(last.local_size(), 3);
  EXPECT_EQ(last.log_name, "rank 3");
  EXPECT_EQ(members[3]->heartbeat(), &progress);
  EXPECT_FALSE(last.one_host());
  EXPECT_FALSE(last.stop_requested());
  EXPECT_EQ(last.threads, 1);
  EXPECT_EQ(alone.local_rank(), 0);
  EXPECT_EQ(alone.local_size(), 1);
}

TEST(RunLocal, ARankThatThrowsIsTheErrorAndNobodyWaitsForIt) {
  const auto body = [](RankContext& rank) {
    const auto beside = rank.world.split(0, 0);
    if (rank.rank() == 1) fail(ErrorKind::data, "row 17 is bad");
    beside->barrier().wait("the one that failed");
  };
  EXPECT_ERROR(run_local(3, body), ErrorKind::data, "row 17 is bad");
}

TEST(RunLocal, RanksThatDeadlockAreNamedWithTheirCalls) {
  const auto body = [](RankContext& rank) {
    std::vector<float> x(8), y(8);
    rank.world.send(view(x), 1 - rank.rank(), 0).wait("test");  // both send first
    rank.world.receive(view(y), 1 - rank.rank(), 0).wait("test");
  };
  run_local(2, body);
  const std::string text = error_of([&] { run_local(2, body, {.rendezvous = true}, std::chrono::milliseconds(100)); });
  EXPECT_EQ(text.find("2 of 2 ranks had not ended after 100 ms\n  rank 0: send of 8 f32: "), 0u) << text;
  EXPECT_NE(text.find("\n  rank 1: send of 8 f32: "), std::string::npos) << text;
}

TEST(RunLocal, EachRankHasItsOwnNameInTheLog) {
  testing::internal::CaptureStderr();
  run_local(3, [](RankContext& rank) {
    log::info("said once");
    if (rank.rank() == 2) log::warning("the disk is full");
  });
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("[rank 2] warning: the disk is full\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("said once"), text.rfind("said once")) << text;
  EXPECT_NE(text.find("said once"), std::string::npos) << text;
}

TEST(RunLocal, ReportsWhatEachRankWaitsFor) {
  run_local(2, [](RankContext& rank) {
    EXPECT_EQ(rank.world.heartbeat(), rank.heartbeat);
    const auto group = rank.reporting_group();
    EXPECT_EQ(group->heartbeat(), rank.heartbeat);
    const Waiting waiting(rank.heartbeat, "the test", 1);
    EXPECT_EQ(rank.heartbeat->state().collective, "the test");
  });
}

}  // namespace
}  // namespace trireme
