#include "cli/flags.h"

#include <gmock/gmock.h>

namespace trireme {
namespace {

using testing::ElementsAre;

TEST(Flags, AListOfOneValueEachMayBeGivenOftenAndTakesNoMore) {
  std::vector<std::string> variables, rest;
  Flags flags("test", "");
  flags.add("--env", variables).one_value();
  flags.add("rest", rest);
  EXPECT_FALSE(flags.parse({"--env", "A=1", "a", "--env", "B=2", "b"}));
  EXPECT_THAT(variables, ElementsAre("A=1", "B=2"));
  EXPECT_THAT(rest, ElementsAre("a", "b"));
}

}  // namespace
}  // namespace trireme
