#include "bench/comm/gradient.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/time.h"

namespace trireme::comm_bench {
namespace {

TEST(MovedBytes, CountEachReadAndWriteOfAReductionOnce) {
  // Half is rounded for the other rank (4 + 2), half is added (4 + 2 in, 2 + 4 out), half is taken over (2 + 4).
  EXPECT_DOUBLE_EQ(moved_bytes(1000, 2, DType::bf16), 500 * (6 + 12 + 6));
  EXPECT_DOUBLE_EQ(moved_bytes(1000, 4, DType::bf16), 750 * 6 + 250 * (4 + 3 * 2 + 2 + 4) + 750 * 6);
  EXPECT_DOUBLE_EQ(moved_bytes(1000, 2, DType::f32), 500 * (8 + 16 + 8));
}

TEST(GradientTable, HoldsAReductionAgainstACopy) {
  GradientComparison c;
  c.bytes = 4000;
  c.all_reduce_seconds = 2e-6;
  c.gradient_seconds = 1e-6;
  c.speed = 2;
  c.wire_bytes = 2000;
  c.two_way_seconds = 1e-6;
  c.ping_pong_rate = 4e9;
  c.copy_rate = 12.34e9;
  c.of_copy = 0.876;
  c.lost_seconds = 3e-6;
  const std::string text = to_text({c}, {});
  EXPECT_NE(text.find("copy GB/s    of copy\n"), std::string::npos) << text;
  EXPECT_NE(text.find("50.0 %       12.34     87.6 %\n"), std::string::npos) << text;
  EXPECT_NE(text.find("# computing beside a reduction of 4000 bytes takes 3.0 us longer\n"), std::string::npos) << text;
}

TEST(KeepBusy, LastsAboutAsLongAsAsked) {
  const int64_t rounds = busy_rounds(1, 0.02);
  double longest = 0;  // of a few, should the sample have been disturbed
  for (int i = 0; i < 3; ++i) {
    const Clock::time_point start = Clock::now();
    keep_busy(1, rounds);
    longest = std::max(longest, seconds_since(start));
  }
  EXPECT_GT(longest, 0.005);
}

GradientComparison compared(int64_t bytes, double of_copy) {
  GradientComparison c;
  c.bytes = bytes;
  c.moved_bytes = 3e6;
  c.gradient_seconds = 1e-3;
  c.of_copy = of_copy;
  return c;
}

TEST(CopyVerdict, JudgesTheLargestSizeByTheShareOfACopy) {
  EXPECT_EQ(copy_verdict({}), "no data to judge");
  EXPECT_EQ(copy_verdict({compared(4096, 0.9)}),
            "3 GB/s read and written at 4096 bytes, too small to judge the memory (at least 1048576 bytes are needed)");
  EXPECT_EQ(copy_verdict({compared(1 << 20, 0.1), compared(2 << 20, 0.8)}),
            "3 GB/s read and written at 2097152 bytes, 80 % of a copy by all ranks at the same time: as expected");
  const std::string remedy =
      "; a reduction waits for the processors of all ranks, a copy only for its own: are there more ranks than cores, "
      "or other programs (`uptime`)?";
  EXPECT_EQ(copy_verdict({compared(2 << 20, 0.79)}),
            "3 GB/s read and written at 2097152 bytes, 79 % of a copy by all ranks at the same time: below the "
            "memory's rate" +
                remedy);
  EXPECT_EQ(copy_verdict({compared(2 << 20, 0.49)}),
            "3 GB/s read and written at 2097152 bytes, 49 % of a copy by all ranks at the same time: poor" + remedy);
}

}  // namespace
}  // namespace trireme::comm_bench
