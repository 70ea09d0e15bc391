#include "comm/heartbeat.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

namespace trireme {
namespace {

/// The compute time of the main thread between two observations; kComputes of comm/control/liveness.cc is 0.001.
double growth(const Heartbeat& heartbeat) {
  const double before = heartbeat.state().cpu_seconds;
  return heartbeat.state().cpu_seconds - before;
}

TEST(Heartbeat, AMainThreadThatIsReadyToRunComputesHoweverLittleItGets) {
  std::atomic<bool> stop = false;
  std::promise<const Heartbeat*> made;
  std::thread main_thread([&] {
    const Heartbeat progress;
    made.set_value(&progress);
    while (!stop) {
    }
  });
  const Heartbeat* const heartbeat = made.get_future().get();
  EXPECT_GT(growth(*heartbeat), 1e-3) << "however short the time between the looks";
  stop = true;
  main_thread.join();
}

TEST(Heartbeat, AMainThreadThatWaitsDoesNot) {
  std::promise<void> stop;
  std::promise<const Heartbeat*> made;
  std::thread main_thread([&] {
    const Heartbeat progress;
    made.set_value(&progress);
    stop.get_future().wait();
  });
  const Heartbeat* const heartbeat = made.get_future().get();
  const auto start = Clock::now();
  while (growth(*heartbeat) > 1e-3 && seconds_since(start) < 20) std::this_thread::yield();  // until it waits
  for (int i = 0; i < 100; ++i) EXPECT_LT(growth(*heartbeat), 1e-3);
  stop.set_value();
  main_thread.join();
}

}  // namespace
}  // namespace trireme
