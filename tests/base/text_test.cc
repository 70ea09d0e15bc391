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

TEST(Text, LettersAreMadeSmall) {
  EXPECT_EQ(lower_case("AbZ-09_@[`"), "abz-09_@[`");
  EXPECT_EQ(lower_case("\xC3\x84"), "\xC3\x84") << "of ASCII only";
}

TEST(Text, DistanceCountsSwapsOfNeighboursOnce) {
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", "abc"), 0u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("trian", "train"), 1u);
}

TEST(Text, TheNearestTakesHyphensAndUnderscoresForTheSame) {
  const std::vector<std::string> names = {"max-steps", "max_stops"};
  EXPECT_EQ(nearest("max_steps", names), "max-steps");
  EXPECT_EQ(nearest("x", std::vector<std::string>()), "");
}

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
