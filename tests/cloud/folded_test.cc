#include "cloud/remote.h"

#include <gtest/gtest.h>

namespace trireme::cloud {
namespace {

TEST(Folded, EqualAnswersAreShownOnceWithTheirNodes) {
  EXPECT_EQ(folded({{"n1", "6.1.0\n"}, {"n2", "6.1.0\n"}, {"n3", "5.15\x1b[2J"}, {"n4", "6.1.0\n"}, {"n5", ""}}),
            "---- n[1-2,4] (3) ----\n6.1.0\n---- n3 (1) ----\n5.15\n---- n5 (1) ----\n");
}

}  // namespace
}  // namespace trireme::cloud
