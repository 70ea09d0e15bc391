#include "base/number.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(ParseNumber, TakesFiniteDecimalNumbersOnly) {
  EXPECT_EQ(parse_number("0"), 0);
  EXPECT_EQ(parse_number("-1.5e3"), -1500);
  EXPECT_EQ(parse_number(".5"), 0.5);
  EXPECT_EQ(parse_number("1e308"), 1e308);
  for (const char* other :
       {"", " 1", "1 ", "1e999", "-1e999", "inf", "-inf", "nan", "NaN", "0x10", "1,5", "1e", "+1", "one"})
    EXPECT_FALSE(parse_number(other)) << other;
}

}  // namespace
}  // namespace trireme
