#include "cli/flags.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "cli/command.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Flags, AListOfOneValueEachMayBeGivenOftenAndTakesNoMore) {
  std::vector<std::string> variables, rest;
  Flags flags("test", "");
  flags.add("--env", variables).one_value();
  flags.add("rest", rest);
  EXPECT_FALSE(flags.parse({"--env", "A=1", "a", "--env", "B=2", "b"}));
  EXPECT_THAT(variables, ElementsAre("A=1", "B=2"));
  EXPECT_THAT(rest, ElementsAre("a", "b"));
}

TEST(Flags, OfAFlagThatIsGivenTwiceTheLastValueCounts) {
  std::string model;
  int64_t steps = 0;
  std::optional<double> rate;
  Flags flags("test", "");
  flags.add("--model", model);
  flags.add("--steps", steps).positive();
  flags.add("--rate", rate);
  EXPECT_FALSE(flags.parse({"--model", "a", "--steps=1", "--rate", "0.5", "--model", "b", "--steps=2", "--rate=0.25"}));
  EXPECT_EQ(model, "b");
  EXPECT_EQ(steps, 2);
  EXPECT_EQ(rate, 0.25);
}

std::string refusal(Flags& flags, const std::vector<std::string>& words) {
  try {
    flags.parse(words);
  } catch (const Error& e) {
    return e.what();
  }
  return "taken";
}

TEST(Flags, AWordThatIsNotKnownIsNamedBeforeWhatIsMissing) {
  std::string tokenizer;
  int64_t threads = 1;
  Flags flags("test", "");
  flags.add("--tokenizer", tokenizer).required();
  flags.add("--threads", threads).positive();
  EXPECT_THAT(refusal(flags, {"--tokenizr", "x"}), HasSubstr("not expected: --tokenizr x; did you mean --tokenizer?;"));
  EXPECT_THAT(refusal(flags, {"--tokenizr=x"}), HasSubstr("did you mean --tokenizer?"));
  EXPECT_THAT(refusal(flags, {"--colour", "red"}), HasSubstr("test: not expected: --colour red; `test --help`"));
  EXPECT_THAT(refusal(flags, {"--threads", "2"}), HasSubstr("--tokenizer is required"));
  EXPECT_THAT(refusal(flags, {"--tokenizer", "x", "--threads", "-3"}),
              HasSubstr("--threads: -3 given, expected a number above 0"));
}

TEST(Flags, HelpOfAnActionSaysHowItIsCalled) {
  std::string file;
  Flags flags("trireme thing", "does things");
  flags.add_action("make", "makes one").add("--file", file, "what it is made of");
  testing::internal::CaptureStdout();
  EXPECT_EQ(flags.parse({"make", "--help"}), 0);
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_THAT(text, HasSubstr("makes one"));
  EXPECT_THAT(text, HasSubstr("Usage: trireme thing make [OPTIONS]\n"));
  EXPECT_THAT(text, HasSubstr("what it is made of"));
}

TEST(Config, EveryActionHasHelp) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--help"}, {"show", "--help"}, {"show", "x.yaml", "-h"}, {"options", "--help"}}) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(run_config(words), 0);
    EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("usage: trireme config show FILES"));
  }
}

TEST(Flags, AnEmptyWordIsNoValueWhereOneIsNeeded) {
  std::string file;
  Flags flags("test", "");
  flags.add("-f,--file", file).not_empty();
  EXPECT_THAT(refusal(flags, {"-f", ""}), HasSubstr("--file: nothing given; is a variable of the shell not set?"));
  EXPECT_THAT(refusal(flags, {"--file="}), HasSubstr("--file"));
  EXPECT_FALSE(flags.parse({"-f", "x"}));
  EXPECT_EQ(file, "x");
}

TEST(Flags, ACountIsNeitherNegativeNorTooLarge) {
  uint64_t count = 7;
  Flags flags("test", "");
  flags.add("--count", count);
  EXPECT_THAT(refusal(flags, {"--count", "-1"}),
              HasSubstr("--count: -1 given, expected a whole number from 0 to 18446744073709551615"));
  EXPECT_THAT(refusal(flags, {"--count=18446744073709551616"}), HasSubstr("expected a whole number"));
  EXPECT_THAT(refusal(flags, {"--count", "1e3"}), HasSubstr("1e3 given, expected a whole number"));
  EXPECT_EQ(count, 7u);
  EXPECT_EQ(refusal(flags, {"--count", "18446744073709551615"}), "taken");
  EXPECT_EQ(count, UINT64_MAX);
}

TEST(Flags, AnActionThatIsNotKnownIsNamed) {
  Flags flags("test", "");
  flags.add_action("encode", "");
  flags.add_action("train", "");
  EXPECT_THAT(refusal(flags, {"encod", "--input", "x"}),
              HasSubstr("not expected: encod --input x; did you mean encode?"));
}

}  // namespace
}  // namespace trireme
