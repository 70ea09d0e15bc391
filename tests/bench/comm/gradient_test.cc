#include "bench/comm/gradient.h"

#include <gtest/gtest.h>

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
  const std::string text = to_text({c}, {});
  EXPECT_NE(text.find("copy GB/s    of copy\n"), std::string::npos) << text;
  EXPECT_NE(text.find("50.0 %       12.34     87.6 %\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace trireme::comm_bench
