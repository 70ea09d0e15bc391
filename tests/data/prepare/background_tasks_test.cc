#include "data/prepare/growing_file.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <vector>

namespace trireme {
namespace {

TEST(BackgroundTasks, RunInOrderOnOneOtherThread) {
  std::vector<int> order;
  std::vector<std::thread::id> threads;
  {
    BackgroundTasks tasks(2);
    for (int i = 0; i < 100; ++i) {
      tasks.add([&, i] {
        order.push_back(i);
        threads.push_back(std::this_thread::get_id());
      });
    }
    tasks.finish();
    ASSERT_EQ(order.size(), 100u);
    for (size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], static_cast<int>(i));
    EXPECT_NE(threads.front(), std::this_thread::get_id());
    EXPECT_EQ(threads.front(), threads.back());
    tasks.add([&] { order.push_back(100); });
  }
  EXPECT_EQ(order.size(), 101u) << "the end of the object waits for the last task";
}

TEST(BackgroundTasks, NoMoreAreUnfinishedThanAllowed) {
  BackgroundTasks tasks(2);
  std::promise<void> gate;
  std::shared_future<void> open = gate.get_future().share();
  std::atomic<int> finished{0};
  for (int i = 0; i < 2; ++i) {
    tasks.add([&, open] {
      open.wait();
      ++finished;
    });
  }
  std::atomic<bool> added{false};
  std::thread third([&] {
    tasks.add([&] { ++finished; });
    EXPECT_GE(finished, 1) << "it was added before there was room";
    added = true;
  });
  EXPECT_FALSE(added);
  gate.set_value();
  third.join();
  tasks.finish();
  EXPECT_EQ(finished, 3);
}

TEST(BackgroundTasks, AnErrorIsThrownToWhoAsksNextAndEndsTheWork) {
  BackgroundTasks tasks(3);
  int later = 0;
  std::promise<void> gate;
  tasks.add([open = gate.get_future().share()] {
    open.wait();
    throw std::runtime_error("the disk is full");
  });
  tasks.add([&] { ++later; });
  gate.set_value();
  EXPECT_THROW(tasks.finish(), std::runtime_error);
  EXPECT_THROW(tasks.add([&] { ++later; }), std::runtime_error);
  EXPECT_THROW(tasks.finish(), std::runtime_error);
  EXPECT_EQ(later, 0);
}

}  // namespace
}  // namespace trireme
