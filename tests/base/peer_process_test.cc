#include "base/peer_process.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/affinity.h"
#include "tests/support/expect_error.h"

namespace trireme {
namespace {

PeerProcess shell(const std::string& script) { return PeerProcess({"sh", "-c", script}); }

TEST(PeerProcess, AnswersALineForALine) {
  PeerProcess peer = shell("echo ready; while read line; do echo 0.5 10 2048 1.25; done");
  for (int i = 0; i < 2; ++i) {
    const PeerProcess::Result result = peer.measure();
    EXPECT_EQ(result.seconds, 0.5);
    EXPECT_EQ(result.tokens, 10u);
    EXPECT_EQ(result.peak_rss, 2048u);
    EXPECT_EQ(result.loss, 1.25);
  }
}

TEST(PeerProcess, HasAllCoresWhenThisProcessIsBoundToOne) {
  std::thread([] {  // so that the test's own thread stays free
    const Cpus before = inherited_cpus();
    CorePlan plan;
    plan.thread_cpus = {{before.front()}};
    apply(plan);
    PeerProcess peer = shell("echo ready; read line; echo 1 $(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)");
    EXPECT_EQ(peer.measure().tokens, before.size());
    EXPECT_EQ(inherited_cpus(), Cpus{before.front()});
  })
      .join();
}

TEST(PeerProcess, ThatDoesNotStartOrAnswerIsNamed) {
  EXPECT_ERROR(PeerProcess({"/no/such/program"}), ErrorKind::io, "cannot start /no/such/program");
  EXPECT_ERROR(shell("echo none"), ErrorKind::io, "it did not report that it is ready");
  PeerProcess peer = shell("echo ready; read line; echo broken");
  EXPECT_ERROR(peer.measure(), ErrorKind::io, "answered \"broken\", expected seconds and tokens");
}

}  // namespace
}  // namespace trireme
