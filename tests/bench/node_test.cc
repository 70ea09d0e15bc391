#include "bench/node.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(BenchNode, MeasuresLongProductsLessOften) {
  EXPECT_EQ(repetitions_of(0), 5);
  EXPECT_EQ(repetitions_of(0.1), 5);
  EXPECT_EQ(repetitions_of(0.3), 3);
  EXPECT_EQ(repetitions_of(0.9), 1);
  EXPECT_EQ(repetitions_of(30), 1);
}

}  // namespace
}  // namespace trireme
