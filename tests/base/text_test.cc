#include "base/text.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(HumanNumbers, AreShort) {
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_bytes(1'234'567), "1.2 MB");
  EXPECT_EQ(human_bytes(18'071'164'396), "18.07 GB");
  EXPECT_EQ(human_seconds(59.4), "59 s");
  EXPECT_EQ(human_seconds(72), "1 min 12 s");
  EXPECT_EQ(human_seconds(3661), "1 h 01 min");
}

}  // namespace
}  // namespace trireme
