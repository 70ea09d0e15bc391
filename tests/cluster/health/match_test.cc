#include "cluster/health/match.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "cluster/health/nhc_settings.h"

namespace trireme::health {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

bool match(const char* text, std::string_view candidate) { return Match(text)(candidate); }

std::string reason(const std::string& text) {
  try {
    Match{text};
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(Match, GlobsCoverTheWholeName) {
  EXPECT_TRUE(match("*", "anything"));
  EXPECT_TRUE(match("n*.viz", "n07.viz"));
  EXPECT_FALSE(match("n*.viz", "n07.phys"));
  EXPECT_TRUE(match("*:/sched", "10.0.0.4:/sched"));
  EXPECT_TRUE(match("n0[1-3]", "n02"));
  EXPECT_TRUE(match("n@(1|2)*", "n2.viz"));
  EXPECT_FALSE(match("n@(1|2)", "n3"));
  EXPECT_TRUE(match("n+([0-9])", "n107"));
}

TEST(Match, ExpressionsAreFoundAnywhere) {
  EXPECT_TRUE(match("/^n[0-9]+$/", "n42"));
  EXPECT_FALSE(match("/^n[0-9]+$/", "n42x"));
  EXPECT_TRUE(match("/gpu/", "my-gpu-node"));
  EXPECT_TRUE(match("/", "/")) << "one slash is a mount point, not an expression";
}

TEST(Match, NodeRangesKeepPaddingAndMayContinueAfterTheBrackets) {
  EXPECT_TRUE(match("{n00[00-99].phys,n05}", "n0007.phys"));
  EXPECT_TRUE(match("{n00[00-99].phys,n05}", "n05"));
  EXPECT_FALSE(match("{n00[00-99].phys,n05}", "n007.phys"));
  EXPECT_FALSE(match("{n00[00-99].phys,n05}", "n00100.phys"));
  EXPECT_TRUE(match("{n[8-12]}", "n10"));
  EXPECT_TRUE(match("{n[8-12]}", "n08")) << "NHC pads to the wider end";
  EXPECT_TRUE(match("{n[8-12]}", "n8"));
  EXPECT_TRUE(match("{n[12-8]}", "n9")) << "NHC takes a range that falls";
  EXPECT_FALSE(match("{n[8-12]}", "n008"));
  EXPECT_FALSE(match("{n[8-12]}", "n13"));
  EXPECT_TRUE(match("{r[1-2]n[1,3]}", "r2n3"));
  EXPECT_FALSE(match("{r[1-2]n[1,3]}", "r2n2"));
}

TEST(Match, ExclamationMarkTurnsItRound) {
  EXPECT_FALSE(match("!n*", "n1"));
  EXPECT_TRUE(match("!n*", "m1"));
  EXPECT_TRUE(match("!/^n/", "m1"));
  EXPECT_FALSE(match("!{n[1-3]}", "n2"));
}

TEST(Match, NamesWhatItCannotRead) {
  EXPECT_THAT(reason("/n(/"), HasSubstr("match \"/n(/\": "));
  EXPECT_THAT(reason("{n[1-3]"), HasSubstr("\"{\" is not closed"));
  EXPECT_THAT(reason("{n[1-3}"), HasSubstr("\"[\" is not closed"));
  EXPECT_THAT(reason("{n[3-x]}"), HasSubstr("is not a range such as 00-15"));
  EXPECT_THAT(reason("(test -e /x)"), HasSubstr("is unsupported"));
}

TEST(ShellWords, SplitsQuotesVariablesAndComments) {
  const Variables variables = {{"ROOT", "/opt/x"}, {"EMPTY", ""}};
  EXPECT_THAT(split_words("a  \"b c\" 'd $ROOT' e\\ f # g", variables).words,
              ElementsAre("a", "b c", "d $ROOT", "e f"));
  EXPECT_THAT(split_words("x $ROOT/f ${ROOT}y \"$ROOT z\" $EMPTY \"$EMPTY\" $NONE", variables).words,
              ElementsAre("x", "/opt/x/f", "/opt/xy", "/opt/x z", ""));
  EXPECT_THAT(split_words("a#b \"x\\\"y\" 5$", variables).words, ElementsAre("a#b", "x\"y", "5$"));
}

TEST(ShellWords, SeesOperatorsOutsideQuotes) {
  for (const char* line : {"a | b", "a && b", "a; b", "a > f", "a $(b)", "a `b`", "\"`b`\""}) {
    EXPECT_TRUE(split_words(line, {}).has_operator) << line;
  }
  EXPECT_FALSE(split_words("a 'b | c' \"d > e\" f\\;g", {}).has_operator);
}

TEST(ShellWords, RefusesWhatNeverCloses) {
  for (const char* line : {"a 'b", "a \"b", "a ${b"}) EXPECT_THROW(split_words(line, {}), Error) << line;
}

}  // namespace
}  // namespace trireme::health
