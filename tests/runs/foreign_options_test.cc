// What other programs' options are here, asked of the commands themselves: each row of the table says what is true.

#include "config/foreign_options.h"

#include <gmock/gmock.h>

#include <sstream>

#include "tests/runs/program.h"

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::Not;
using Kind = ForeignOption::Kind;

/// A value that no row calls harmless.
std::vector<std::string> words_of(const ForeignOption& option, const std::string& command) {
  std::istringstream words(command);
  std::vector<std::string> out;
  for (std::string word; words >> word;) out.push_back(word);
  out.emplace_back(option.name);
  if (out.back().find('=') == std::string::npos) out.emplace_back("1");
  out.emplace_back("--no-such-option");
  return out;
}

void expect_true(const ForeignOption& option, const std::string& command) {
  SCOPED_TRACE(command + " " + option.name);
  const Outcome outcome = run(trireme_command(words_of(option, command)));
  EXPECT_EQ(outcome.code, 2) << outcome.output;
  if (option.kind == Kind::elsewhere) {
    EXPECT_THAT(outcome.output, HasSubstr(std::string(" is not supported; instead: ") + option.text));
    return;
  }
  // The next complaint is about the option that nobody has, and about that one alone.
  if (command == "train") {
    EXPECT_THAT(outcome.output, HasSubstr("no option \"no-such-option\""));
  } else {
    EXPECT_THAT(outcome.output, HasSubstr("not expected: --no-such-option"));
  }
  if (option.kind == Kind::no_effect) {
    EXPECT_THAT(outcome.output, HasSubstr(" has no effect here"));
  }
}

TEST(ForeignOptionsOfEveryCommand, AreWhatTheTableSays) {
  size_t rows = 0;
  for (const ForeignOption& option : foreign_options()) {
    std::istringstream commands(option.commands);
    for (std::string command; std::getline(commands, command, '|'); ++rows) expect_true(option, command);
  }
  EXPECT_GE(rows, 200u);
}

TEST(ForeignOptionsOfEveryCommand, NoneStandsBehindAnEqualSignThatIsNotRead) {
  const Outcome outcome = run(trireme_command({"sample", "--out_dir=no-such-run", "--start=a"}));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.output, HasSubstr("no model folder no-such-run"));
  EXPECT_THAT(
      run(trireme_command({"prepare", "--input", "x", "--tokenizer", "t", "--output", "o", "--workers", "2"})).output,
      Not(HasSubstr("--order")));
}

TEST(Commands, AWordThatIsNoneIsNamedWithTheNearest) {
  const Outcome outcome = run(trireme_command({"trian", "c.yaml"}));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.output, HasSubstr("no command \"trian\"; nearest is \"train\", and `trireme --help` lists all"));
}

}  // namespace
}  // namespace trireme
