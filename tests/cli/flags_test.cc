#include "cli/flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <sstream>

#include "base/error.h"
#include "cli/command.h"
#include "config/load.h"
#include "tests/support/expect_error.h"

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

std::string refusal(Flags& flags, const std::vector<std::string>& words);

TEST(Flags, ANumberIsWrittenAsOne) {
  int64_t steps = 0;
  double rate = 0;
  Flags flags("test", "");
  flags.add("--steps", steps);
  flags.add("--rate", rate);
  for (const char* word : {"1e3", "8x", "a100:8", "0x10", "1.5", "-"})
    EXPECT_EQ(refusal(flags, {"--steps", word}),
              fmt::format("test: --steps: {} given, expected a whole number; `test --help` explains the flags", word));
  for (const char* word : {"fast", "1.5s", "1,5"})
    EXPECT_EQ(refusal(flags, {"--rate", word}),
              fmt::format("test: --rate: {} given, expected a number; `test --help` explains the flags", word));
  EXPECT_FALSE(flags.parse({"--steps", "-3", "--rate", "1e-3"}));
  EXPECT_EQ(steps, -3);
  EXPECT_EQ(rate, 1e-3);
}

TEST(Flags, AFileThatCannotBeWrittenIsRefusedBeforeTheWork) {
  std::string file;
  Flags flags("test", "");
  flags.add("--json", file).output_file();
  EXPECT_EQ(refusal(flags, {"--json", "/no/such/x.json"}),
            "test: --json: cannot write /no/such/x.json: folder /no/such is missing; create it; `test --help` explains "
            "the flags");
  EXPECT_THAT(refusal(flags, {"--json", "/"}), HasSubstr("--json: / is a folder, expected the name of a file"));
  EXPECT_THAT(refusal(flags, {"--json", "/dev/null/x"}),
              HasSubstr("cannot write /dev/null/x: /dev/null is not a folder"));
  EXPECT_THAT(refusal(flags, {"--json="}), HasSubstr("the value is empty; is a shell variable not set?"));
  EXPECT_FALSE(flags.parse({"--json", "result.json"}));
}

std::string refusal(Flags& flags, const std::vector<std::string>& words) {
  try {
    flags.parse(words);
  } catch (const Error& e) {
    return e.what();
  }
  return "taken";
}

TEST(Flags, AChoiceIsOneOfTheNamesOfItsValues) {
  DType dtype = DType::f32;
  ShardChoice shard = ShardChoice::gradients;
  Flags flags("test", "");
  flags.choice("--dtype", dtype, "type", {DType::f32, DType::bf16});
  flags.choice("--shard", shard, "what is shared");
  EXPECT_FALSE(flags.parse({"--dtype", "f32", "--dtype=bf16"}));
  EXPECT_EQ(dtype, DType::bf16) << "the last one counts";
  EXPECT_EQ(shard, ShardChoice::gradients);
  EXPECT_FALSE(flags.parse({"--shard", "none"}));
  EXPECT_EQ(shard, ShardChoice::none);
  EXPECT_THAT(refusal(flags, {"--dtype", "f16"}), HasSubstr("--dtype: f16 not in {f32,bf16}"));
  EXPECT_THAT(refusal(flags, {"--shard", "all"}), HasSubstr("not in {none,optimizer,gradients,parameters}"));
  testing::internal::CaptureStdout();
  EXPECT_EQ(flags.parse({"--help"}), 0);
  EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("--dtype TEXT:{f32,bf16}=f32"));
}

TEST(Flags, AnUnknownWordIsNamedBeforeMissingOnes) {
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

TEST(Flags, AnEmptyWordIsNotAValue) {
  std::string file;
  Flags flags("test", "");
  flags.add("-f,--file", file).not_empty();
  EXPECT_THAT(refusal(flags, {"-f", ""}), HasSubstr("--file: the value is empty; is a shell variable not set?"));
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

TEST(Flags, AnEmptyValueIsAnEmptyValue) {
  std::string text = "before", other = "before";
  std::vector<std::string> list;
  std::optional<std::string> maybe;
  std::string truth = "False";
  bool on = false;
  Flags flags("test", "");
  flags.add("-t,--some-text", text);
  flags.add("--other", other);
  flags.add("--list", list).one_value();
  flags.add("--maybe", maybe);
  flags.add("--truth", truth).optional_value("True", "[True|False]");
  flags.add_switch("--on", on);
  EXPECT_EQ(refusal(flags, {"--some_text=", "--other=x"}), "taken");
  EXPECT_EQ(text, "");
  EXPECT_EQ(other, "x");
  EXPECT_EQ(refusal(flags, {"--some-text", "", "--other", ""}), "taken");
  EXPECT_EQ(text + other, "");
  EXPECT_EQ(refusal(flags, {"--list=", "--list=a", "--list="}), "taken");
  EXPECT_THAT(list, ElementsAre("", "a", ""));
  EXPECT_EQ(refusal(flags, {"--maybe=", "--other=y"}), "taken");
  EXPECT_EQ(maybe, "");
  EXPECT_EQ(refusal(flags, {"--truth=", "--other=z"}), "taken");
  EXPECT_EQ(truth, "");
  EXPECT_EQ(other, "z");
  EXPECT_THAT(refusal(flags, {"--on=", "--other=z"}), HasSubstr("--on= has no value; give --on without '='"));
  EXPECT_THAT(refusal(flags, {"--unknown=", "--other=z"}), HasSubstr("not expected: --unknown="));
}

TEST(Flags, TheNextFlagIsNoValue) {
  std::string text, other, maybe = "before";
  std::vector<std::string> list;
  bool on = false;
  Flags flags("test", "");
  flags.add("--some-text", text);
  flags.add("--other", other);
  flags.add("--list", list);
  flags.add("--maybe", maybe).optional_value("alone", "[TEXT]");
  flags.add_switch("--on", on);
  const std::string expected = "--some-text has no value: the flag --other follows it (is a shell variable not set?)";
  EXPECT_THAT(refusal(flags, {"--some_text", "--other", "x"}), HasSubstr(expected));
  EXPECT_THAT(refusal(flags, {"--some-text", "--other=x"}), HasSubstr("the flag --other=x follows it"));
  EXPECT_THAT(refusal(flags, {"--list", "--on"}), HasSubstr("--list has no value: the flag --on follows it"));
  EXPECT_EQ(refusal(flags, {"--some-text=--other", "--other", "--no-flag"}), "taken");
  EXPECT_EQ(text, "--other");
  EXPECT_EQ(other, "--no-flag");
  EXPECT_EQ(refusal(flags, {"--maybe", "--on"}), "taken");
  EXPECT_EQ(maybe, "alone");
  EXPECT_EQ(refusal(flags, {"--list", "a", "b", "--other", "-1"}), "taken");
  EXPECT_THAT(list, ElementsAre("a", "b"));
}

TEST(Flags, ANumberIsFiniteAndFitsItsType) {
  double rate = 1;
  float small = 1;
  int count = 1;
  int64_t large = 1;
  std::optional<double> maybe;
  std::optional<int64_t> maybe_whole;
  Flags flags("test", "");
  flags.add("--rate", rate);
  flags.add("--small", small);
  flags.add("--count", count);
  flags.add("--large", large);
  flags.add("--maybe", maybe);
  flags.add("--maybe-whole", maybe_whole);
  for (const char* value : {"1e400", "-1e400", "inf", "-inf", "nan", "infinity", "NaN"}) {
    for (const char* name : {"--rate", "--small", "--maybe"}) {
      EXPECT_THAT(refusal(flags, {name, value}),
                  HasSubstr(fmt::format("{}: {} given, expected a finite number", name, value)));
    }
  }
  EXPECT_THAT(refusal(flags, {"--small=1e39"}), HasSubstr("--small: 1e39 given, expected a finite number"));
  EXPECT_THAT(refusal(flags, {"--count=2147483648"}),
              HasSubstr("--count: 2147483648 given, expected a whole number from -2147483648 to 2147483647"));
  for (const char* name : {"--large", "--maybe-whole"}) {
    EXPECT_THAT(refusal(flags, {name, "9223372036854775808"}), HasSubstr(std::string(name) + ": 9223372036854775808"));
  }
  for (const char* name : {"--rate", "--small", "--count", "--large", "--maybe", "--maybe-whole"}) {
    EXPECT_THAT(refusal(flags, {std::string(name) + "="}),
                HasSubstr(std::string(name) + ": the value is empty, expected a number"));
    EXPECT_NE(refusal(flags, {name, "many"}), "taken");
    EXPECT_EQ(refusal(flags, {name, "3"}), "taken");
  }
  EXPECT_EQ(refusal(flags, {"--rate=1e-400", "--small=1e38"}), "taken");
}

std::string help_of(const Command& command, std::vector<std::string> words) {
  words.emplace_back("--help");
  testing::internal::CaptureStdout();
  command.run(words);
  return testing::internal::GetCapturedStdout();
}

/// What stands first in the indented lines of a part of a help text: actions, or flags that take a value.
std::vector<std::string> names_in(const std::string& help, const std::string& part) {
  std::vector<std::string> names;
  std::istringstream lines(help);
  bool inside = part.empty();
  for (std::string line; std::getline(lines, line);) {
    if (!part.empty() && line.starts_with(part)) inside = true;
    if (!inside || !line.starts_with("  ") || line.starts_with("   ")) continue;
    const size_t dashes = line.find("--");
    std::string word = line.substr(2, line.find_first_of(" ,", 2) - 2);
    if (part.empty()) {
      if (dashes == std::string::npos || dashes > 6) continue;
      const size_t end = line.find_first_of(" ,=", dashes);
      word = line.substr(dashes, end - dashes);
      const size_t type = line.find_first_not_of(' ', line.find(' ', dashes));
      const bool takes = type != std::string::npos && line.find("  ", dashes) > type &&
                         (std::isupper(static_cast<unsigned char>(line[type])) || line[type] == '[');
      if (!takes) continue;
    }
    names.push_back(word);
  }
  return names;
}

/// The flag alone, with nothing behind its '=', before one that does not exist: that one must not become its value.
void expect_empty_value(const Command& command, const std::vector<std::string>& action, const std::string& flag) {
  std::vector<std::string> words = action;
  words.insert(words.end(), {flag + "=", "--no-such-flag=1"});
  std::string said = "taken";
  try {
    command.run(words);
  } catch (const Error& e) {
    said = e.what();
  }
  EXPECT_THAT(said, testing::AnyOf(HasSubstr("not expected: --no-such-flag=1"), HasSubstr("the value is empty"),
                                   HasSubstr("unknown option \"no-such-flag\"")))
      << command.name << " " << fmt::format("{}", fmt::join(action, " ")) << " " << flag;
}

TEST(Flags, NoCommandTakesTheNextFlagForAnEmptyValue) {
  size_t tried = 0;
  for (const Command& command : commands()) {
    const std::string name = command.name;
    if (name == "node-agent" || name == "train" || name == "sft" || name == "dpo" || name == "config")
      continue;  // no flags; config/load's, below
    std::vector<std::vector<std::string>> actions{{}};
    const std::string help = help_of(command, {});
    for (const std::string& action : names_in(help, name == "bench" ? "usage" : "Subcommands:"))
      actions.push_back({action});
    for (const std::vector<std::string>& action : actions) {
      if (action.empty() && actions.size() > 1) continue;
      for (const std::string& flag : names_in(help_of(command, action), "")) {
        expect_empty_value(command, action, flag);
        ++tried;
      }
    }
  }
  EXPECT_GT(tried, 200u) << "flags of all commands";
  for (const char* flag : {"--run.dir=", "--data.validation=", "--model.init=", "--checkpoint.best_link="}) {
    EXPECT_ERROR(load_config({}, {flag, "--no-such-flag=1"}), ErrorKind::config, "unknown option \"no-such-flag\"");
  }
  EXPECT_EQ(load_config({}, {"--data.validation=", "--run.dir=x"}).config.data.validation, "");
  EXPECT_EQ(load_config({}, {"--data.validation=", "--run.dir=x"}).config.run.dir, "x");
}

}  // namespace
}  // namespace trireme
