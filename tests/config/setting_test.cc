#include "config/setting.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trireme {
namespace {

TEST(ResolvePlain, TellsTypesApart) {
  EXPECT_EQ(resolve_plain("True"), Value(true));
  EXPECT_EQ(resolve_plain("false"), Value(false));
  EXPECT_EQ(resolve_plain("-12"), Value(int64_t{-12}));
  EXPECT_EQ(resolve_plain("+12"), Value(int64_t{12}));
  EXPECT_EQ(resolve_plain("3e-4"), Value(3e-4));
  EXPECT_EQ(resolve_plain("1."), Value(1.0));
  EXPECT_EQ(resolve_plain("9223372036854775808"), Value(9223372036854775808.0));
  for (const char* text : {"yes", "no", "12a", "0x10", "", "-", "1e", "a.b", "--3"}) {
    EXPECT_EQ(resolve_plain(text), Value(std::string(text)));
  }
}

TEST(ResolvePlain, KeepsNumbersThatAreNotFiniteApartFromText) {
  for (const char* text : {".inf", "-.inf", "inf", "1e999"}) {
    ASSERT_TRUE(std::holds_alternative<double>(resolve_plain(text))) << text;
    EXPECT_TRUE(std::isinf(std::get<double>(resolve_plain(text)))) << text;
  }
  for (const char* text : {".nan", "nan", "NaN"}) {
    ASSERT_TRUE(std::holds_alternative<double>(resolve_plain(text))) << text;
    EXPECT_TRUE(std::isnan(std::get<double>(resolve_plain(text)))) << text;
  }
}

TEST(NearestName, FindsSlips) {
  const std::vector<std::string> names{"optim.learning-rate", "optim.clip", "log.every", "checkpoint.every"};
  EXPECT_EQ(nearest_name("optim.learning-rat", names), "optim.learning-rate");
  EXPECT_EQ(nearest_name("optim.learnign_rate", names), "optim.learning-rate");
  EXPECT_EQ(nearest_name("learning_rate", names), "optim.learning-rate");
  EXPECT_EQ(nearest_name("adam.clip", names), "optim.clip");
  EXPECT_EQ(nearest_name("chekpoint.every", names), "checkpoint.every");
}

TEST(NearestName, SaysNothingWhenNothingIsNear) {
  const std::vector<std::string> names{"optim.learning-rate", "optim.clip"};
  EXPECT_EQ(nearest_name("flux-capacitor", names), "");
  EXPECT_EQ(nearest_name(std::string(100000, 'a'), names), "");
}

}  // namespace
}  // namespace trireme
