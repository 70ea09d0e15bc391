#include "bench/node.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/affinity.h"

namespace trireme {
namespace {

TEST(BenchNode, MeasuresLongProductsLessOften) {
  EXPECT_EQ(repetitions_of(0), 5);
  EXPECT_EQ(repetitions_of(0.1), 5);
  EXPECT_EQ(repetitions_of(0.3), 3);
  EXPECT_EQ(repetitions_of(0.9), 1);
  EXPECT_EQ(repetitions_of(30), 1);
}

TEST(BenchNode, SaysThatTheNodeWasBusy) {
  NodeBenchResult result;
  result.taken = 0.05;
  EXPECT_EQ(to_text(result).find("warning"), std::string::npos);
  result.taken = 0.62;
  EXPECT_NE(to_text(result).find("warning            other programs used 62 % of the processors: these rates are not "
                                 "those of the node"),
            std::string::npos);
}

/// With three more threads on each processor a measurement has a quarter of them.
TEST(BenchNode, NoticesOtherProgramsOnItsProcessors) {
  std::atomic<bool> done = false;
  std::vector<std::thread> others;
  for (unsigned i = 0; i < 3 * std::thread::hardware_concurrency(); ++i)
    others.emplace_back([&] {
      while (!done) {
      }
    });
  const auto ops = make_cpu_ops();
  const double taken = processors_taken(*ops, static_cast<int>(physical_cores().size()));
  done = true;
  for (std::thread& other : others) other.join();
  EXPECT_GE(taken, kBusyNode);
  EXPECT_LE(taken, 1);
}

}  // namespace
}  // namespace trireme
