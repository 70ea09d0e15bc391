#include "cli/sample/stop_text.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(StopText, EndsBeforeTheFirstStop) {
  const std::vector<std::string> stops = {"END", "\nUser:"};
  StopText text(stops);
  EXPECT_EQ(text.feed("It is 4.\nUs"), "It is 4.");  // may be the beginning of a stop
  EXPECT_EQ(text.feed("ually E"), "\nUsually ");
  EXPECT_EQ(text.feed("xtra"), "Extra");
  EXPECT_FALSE(text.reached());
  EXPECT_EQ(text.feed(" and\nUser: hello END"), " and");
  EXPECT_TRUE(text.reached());
  EXPECT_EQ(text.feed("more"), "");
  EXPECT_EQ(text.finish(), "");
}

TEST(StopText, GivesBackWhatOnlyLookedLikeAStop) {
  const std::vector<std::string> stops = {"ENDE"};
  StopText text(stops);
  EXPECT_EQ(text.feed("The EN"), "The ");
  EXPECT_EQ(text.feed("D"), "");
  EXPECT_EQ(text.finish(), "END");
  const std::vector<std::string> none;
  StopText all(none);
  EXPECT_EQ(all.feed("END"), "END");
}

}  // namespace
}  // namespace trireme
