#include "base/log.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace trireme {
namespace {

/// What body() writes to standard error.
template <class Body>
std::string logged(Body body) {
  testing::internal::CaptureStderr();
  body();
  return testing::internal::GetCapturedStderr();
}

TEST(Log, AJobOfOneRankNeedsNoName) {
  EXPECT_EQ(logged([] { log::warning("the disk is {} % full", 90); }), "warning: the disk is 90 % full\n");
}

TEST(Log, AListenerGetsTheLinesOfTheConsole) {
  std::string heard;
  log::set_listener([&](std::string_view line) { heard += line, heard += '\n'; });
  const std::string shown = logged([] {
    log::warning("the disk is {} % full", 90);
    log::debug("not shown");
    const log::ThreadIdentity as({1, "rank 1"});
    log::info("of rank 0 only");
    log::error("a\x1b[2Jb");
  });
  log::set_listener({});
  EXPECT_EQ(heard, shown);
  EXPECT_EQ(heard, "warning: the disk is 90 % full\n[rank 1] error: ab\n");
  logged([] { log::warning("more"); });
  EXPECT_EQ(heard, shown);
}

TEST(Log, AThreadWithAnIdentityNamesItsRank) {
  EXPECT_EQ(logged([] {
              const log::ThreadIdentity as({2, "rank 2"});
              log::warning("the disk is full");
              log::info_all("going on");
            }),
            "[rank 2] warning: the disk is full\n[rank 2] going on\n");
}

TEST(Log, OnlyAThreadOfRankZeroWritesLinesLoggedOnce) {
  for (const int rank : {0, 1}) {
    const std::string text = logged([&] {
      std::thread([&] {
        const log::ThreadIdentity as({rank, "a rank"});
        log::info("starting from scratch");
      }).join();
    });
    EXPECT_EQ(text, rank == 0 ? "starting from scratch\n" : "");
  }
}

TEST(Log, AnIdentityEndsWithItsScopeAndBelongsToItsThreadAlone) {
  const log::ThreadIdentity outer({1, "outer"});
  {
    const log::ThreadIdentity inner({2, "inner"});
    EXPECT_EQ(log::identity().name, "inner");
    std::thread([] { EXPECT_EQ(log::identity().name, ""); }).join();
  }
  EXPECT_EQ(log::identity().name, "outer");
  EXPECT_EQ(log::identity().rank, 1);
}

TEST(Log, AThreadCanTakeOverItsStartersIdentity) {
  const log::ThreadIdentity as({3, "rank 3"});
  EXPECT_EQ(logged([] {
              std::thread([starter = log::identity()] {
                const log::ThreadIdentity own(starter);
                log::error("no");
              }).join();
            }),
            "[rank 3] error: no\n");
}

}  // namespace
}  // namespace trireme
