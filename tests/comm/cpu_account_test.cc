#include "comm/cpu_account.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

namespace trireme {
namespace {

void burn(double seconds) {
  for (const double start = thread_cpu_seconds(); thread_cpu_seconds() - start < seconds;) {
  }
}

TEST(CpuAccount, CountsThreadsByKindWhileTheyLiveAndAfterwards) {
  CpuAccount account;
  std::promise<void> burnt, looked;
  std::thread control([&] {
    burn(0.05);  // before it is counted
    const CpuAccount::Thread counted(&account, ThreadKind::control);
    burn(0.02);
    burnt.set_value();
    looked.get_future().wait();
  });
  burnt.get_future().wait();
  const CpuTimes during = account.times();
  looked.set_value();
  control.join();
  std::thread([&] {
    const CpuAccount::Thread counted(&account, ThreadKind::exchange);
    burn(0.03);
  }).join();
  account.add_waiting(0.25);
  const CpuTimes after = account.times();
  EXPECT_GE(during.control, 0.02);
  EXPECT_LT(during.control, 0.05);
  EXPECT_EQ(during.exchange, 0);
  EXPECT_GE(after.control, during.control);
  EXPECT_LT(after.control, 0.05);
  EXPECT_GE(after.exchange, 0.03);
  EXPECT_EQ(after.waiting, 0.25);
  EXPECT_GE(after.total, during.total + 0.03);
  EXPECT_EQ(after.since(during).waiting, 0.25);
}

TEST(CpuTimes, AreReportedAsSharesOfTheTotal) {
  const CpuTimes times = CpuTimes::of({150, 1, 4, 0.5}) + CpuTimes::of({50, 0, 0, 0.5});
  EXPECT_DOUBLE_EQ(times.share_beside(), 0.03);
  EXPECT_EQ(describe(times, 4),
            "processor time of 4 ranks: 200.0 s, of it 97.0 % computing, 0.5 % waiting for other ranks, 2.0 % exchange "
            "of gradients, 0.5 % control channel");
  EXPECT_EQ(CpuTimes().share_beside(), 0);
}

}  // namespace
}  // namespace trireme
