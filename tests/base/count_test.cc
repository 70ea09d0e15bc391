#include "base/count.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace trireme {
namespace {

TEST(CountText, PutsTheNounInTheNumberThatTheCountAsksFor) {
  EXPECT_EQ(count_text(1, "rank"), "1 rank");
  EXPECT_EQ(count_text(0, "rank"), "0 ranks");
  EXPECT_EQ(count_text(uint64_t{2}, "data rank"), "2 data ranks");
  EXPECT_EQ(count_text(int64_t{-1}, "step"), "-1 steps");
  EXPECT_EQ(count_text(1, "process"), "1 process");
  EXPECT_EQ(count_text(2, "process"), "2 processes");
  EXPECT_EQ(count_text(2, "micro-batch"), "2 micro-batches");
  EXPECT_EQ(count_text(size_t{12}, "entry"), "12 entries");
  EXPECT_EQ(count_text(2, "key"), "2 keys");
  EXPECT_EQ(count_text(3, "epoch"), "3 epochs");
}

}  // namespace
}  // namespace trireme
