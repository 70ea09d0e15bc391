#include "train/memory_watch.h"

#include <gmock/gmock.h>

#include <array>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/time.h"
#include "tensor/arena.h"

namespace trireme {
namespace {

constexpr size_t kBytes = size_t{64} << 20;
constexpr double kOther = 8e6;  // what allocators and other threads may take or give back meanwhile

void touch(const Arena& arena) { std::memset(arena.base(), 1, arena.capacity()); }

TEST(MemoryWatch, CountsMemoryTouchedAfterItsStartAndKeepsThePeak) {
  const Arena before(kBytes);
  touch(before);
  MemoryWatch watch;
  EXPECT_LT(static_cast<double>(watch.peak()), kOther);
  const Arena untouched(kBytes);
  EXPECT_LT(static_cast<double>(watch.peak()), kOther);
  {
    const Arena arena(kBytes);
    touch(arena);
    EXPECT_NEAR(static_cast<double>(watch.peak()), static_cast<double>(kBytes), kOther);
  }
  EXPECT_NEAR(static_cast<double>(watch.peak()), static_cast<double>(kBytes), kOther);
}

TEST(MemoryWatch, SeesAPeakThatIsOverBeforeItIsAsked) {
  MemoryWatch watch;
  {
    const Arena arena(kBytes);
    touch(arena);
    // A busy machine may let the watch run late, not for a minute; it may have looked when a part was touched.
    const auto start = Clock::now();
    while (seconds_since(start) < 60 && static_cast<double>(watch.seen()) < static_cast<double>(kBytes) - kOther)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_NEAR(static_cast<double>(watch.peak()), static_cast<double>(kBytes), kOther);
}

TEST(MemoryWatch, ItsLineNamesTheRankWithTheLargestPeakAndThatRanksPlan) {
  const std::array<uint64_t, 1> one_plan{2'510'000'000}, one_peak{2'530'000'000};
  EXPECT_EQ(describe_memory(one_plan, one_peak), "memory: planned 2.51 GB, peak 2.53 GB");
  const std::array<uint64_t, 3> plans{2'510'000'000, 3'000'000'000, 1},
      peaks{2'530'000'000, 3'014'000'000, 3'013'000'000};
  EXPECT_EQ(describe_memory(plans, peaks), "memory per rank: planned 3.00 GB, peak 3.01 GB (rank 1, the largest of 3)");
}

}  // namespace
}  // namespace trireme
