#include "base/stop.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace trireme::stop {
namespace {

using namespace std::chrono_literals;

constexpr Time kStart{1000s};

TEST(StopRequest, SignalsWithinFiveSecondsOfTheFirstAreTheSameRequest) {
  Request request;
  EXPECT_FALSE(request.made());
  EXPECT_FALSE(request.take(SIGTERM, kStart));
  EXPECT_TRUE(request.made());
  EXPECT_FALSE(request.take(SIGTERM, kStart)) << "Slurm and `timeout` send it twice, in one instant";
  EXPECT_FALSE(request.take(SIGINT, kStart + 2s));
  EXPECT_FALSE(request.take(SIGTERM, kStart + 4999ms)) << "counted from the first, not from the one before";
  EXPECT_TRUE(request.take(SIGTERM, kStart + 5s));
  EXPECT_TRUE(request.take(SIGINT, kStart + 60s));
  EXPECT_EQ(request.first_signal(), SIGTERM);
}

TEST(StopRequest, Usr1IsNeverASecondOne) {
  Request request;
  EXPECT_FALSE(request.take(SIGINT, kStart));
  EXPECT_FALSE(request.take(SIGUSR1, kStart + 60s));
  EXPECT_EQ(request.first_signal(), SIGINT);
  Request other;
  EXPECT_FALSE(other.take(SIGUSR1, kStart));
  EXPECT_TRUE(other.made());
  EXPECT_TRUE(other.take(SIGTERM, kStart + 5s));
}

}  // namespace
}  // namespace trireme::stop
