// Checks each row of the table of other programs' options against the commands.

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
  if (option.is_switch) out.emplace_back("True");
  if (!option.is_switch && out.back().find('=') == std::string::npos) out.emplace_back("1");
  out.emplace_back("--no-such-option");
  return out;
}

void expect_true(const ForeignOption& option, const std::string& command) {
  SCOPED_TRACE(command + " " + std::string(option.name));
  const Outcome outcome = run(trireme_command(words_of(option, command)));
  EXPECT_EQ(outcome.code, 2) << outcome.output;
  if (option.kind == Kind::elsewhere) {
    EXPECT_THAT(outcome.output, HasSubstr(std::string(" is not supported; instead: ") + option.text));
    return;
  }
  // The next error names only the unknown option.
  if (command == "train" || command == "sft" || command == "dpo") {
    EXPECT_THAT(outcome.output, HasSubstr("unknown option \"no-such-option\""));
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

TEST(ForeignOptionsOfEveryCommand, NoneIsIgnoredAfterAnEqualSign) {
  const Outcome outcome = run(trireme_command({"sample", "--out_dir=no-such-run", "--start=a"}));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.output, HasSubstr("no-such-run does not exist"));
  EXPECT_THAT(
      run(trireme_command({"prepare", "--input", "x", "--tokenizer", "t", "--output", "o", "--workers", "2"})).output,
      Not(HasSubstr("--order")));
}

TEST(Commands, AnUnknownWordIsNamedWithTheNearest) {
  const Outcome outcome = run(trireme_command({"trian", "c.yaml"}));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.output,
              HasSubstr("unknown command \"trian\"; nearest is \"train\"; `trireme --help` lists all commands"));
}

TEST(Commands, OptionsOfOtherProgramsAreNotMistakenForTypos) {
  const struct {
    const char *word, *said;
  } cases[] = {
      {"accelerate",
       "unknown command \"accelerate\"; `trireme launch -f HOSTFILE -- train ...` does what `accelerate launch` does"},
      {"python",
       "unknown command \"python\"; trireme is one program without Python: `trireme train` replaces train.py"},
      {"mpirun", "it comes first: `mpirun -n N trireme train ...`"},
      {"config/train.py", "`trireme train` replaces it"},
      {"qqqq", "unknown command \"qqqq\"; `trireme --help` lists all commands"},
  };
  for (const auto& [word, said] : cases) {
    const Outcome outcome = run(trireme_command({word, "x"}));
    EXPECT_EQ(outcome.code, 2) << word;
    EXPECT_THAT(outcome.output, HasSubstr(said));
    EXPECT_THAT(outcome.output, Not(HasSubstr("nearest")));
  }
}

TEST(Commands, HelpAfterLaunchIsThatOfTheCommand) {
  const Outcome train = run(trireme_command({"launch", "--", "train", "--help"}));
  EXPECT_EQ(train.code, 0);
  EXPECT_THAT(train.output, HasSubstr("usage: trireme train CONFIG.yaml"));
  const Outcome sample = run(trireme_command({"launch", "-f", "no-such-file", "--", "sample", "-h"}));
  EXPECT_EQ(sample.code, 0);
  EXPECT_THAT(sample.output, HasSubstr("Continues a prompt with a trained model"));
}

TEST(Commands, TheFirstScreenSaysWhatThisBuildTrainsOn) {
  const Outcome outcome = run(trireme_command({}));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.output, HasSubstr("on CPUs or GPUs, on one machine or a cluster."));
}

TEST(Numbers, ThatAreNotFiniteAreRefusedByEveryCommand) {
  const std::vector<std::vector<std::string>> cases{
      {"glue", "--learning_rate", "1e400"},
      {"glue", "--weight-decay=nan"},
      {"glue", "--num_train_epochs=inf"},
      {"sample", "--model", "x", "--temperature=inf"},
      {"sample", "--model", "x", "--top-p", "nan"},
      {"bench", "step", "--peak-tflops=1e400"},
      {"train", "--optim.learning-rate", "1e400"},
      {"train", "--optim.clip=.inf"},
      {"train", "--dialect", "nanogpt", "--learning_rate=1e400"},
      {"sample", "--model", "x", "--max-new-tokens", "9223372036854775808"},
      {"launch", "--np", "99999999999", "--", "train", "x"},
  };
  for (const std::vector<std::string>& words : cases) {
    const Outcome outcome = run(trireme_command(words));
    const std::string typed = *std::ranges::find_if(
        words, [](const std::string& w) { return w.starts_with("--") && w != "--model" && w != "--dialect"; });
    EXPECT_EQ(outcome.code, 2) << outcome.output;
    std::string name = typed.substr(0, typed.find('='));
    if (words[0] != "train") std::ranges::replace(name, '_', '-');
    EXPECT_THAT(outcome.output, HasSubstr(name)) << words[0];
  }
}

}  // namespace
}  // namespace trireme
