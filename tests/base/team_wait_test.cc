#include "base/team_wait.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/file.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

TEST(SecondsWithoutProcessor, AreAddedUpOverTheThreads) {
  TemporaryFolder folder;
  EXPECT_FALSE(seconds_without_processor(folder.path())) << "no /proc";
  const std::string tasks = folder / "proc/self/task";
  for (const auto& [thread, text] :
       {std::pair{"7", "9000000000 1500000000 12\n"}, {"8", "1 250000000 1\n"}, {"9", ""}}) {
    std::filesystem::create_directories(tasks + "/" + thread);
    write_text(tasks + "/" + thread + "/schedstat", text);
  }
  EXPECT_EQ(seconds_without_processor(folder.path()), 1.75);
  write_text(tasks + "/7/schedstat", "");
  write_text(tasks + "/8/schedstat", "x");
  EXPECT_FALSE(seconds_without_processor(folder.path())) << "a kernel that does not count them";
}

TEST(SecondsWithoutProcessor, GrowWhileThreadsShareAProcessor) {
  const std::optional<double> before = seconds_without_processor();
  if (!before) GTEST_SKIP() << "this kernel does not count the time of threads without a processor";
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads(2 * std::thread::hardware_concurrency());
  for (std::thread& thread : threads) {
    thread = std::thread([&] {
      while (!stop) {
      }
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const std::optional<double> after = seconds_without_processor();
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(*after - *before, 0.2);
}

}  // namespace
}  // namespace trireme
