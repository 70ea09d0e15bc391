// trireme check: what it compares of a user's own run, and what it answers.

#include <gmock/gmock.h>

#include "tests/runs/chat_fixture.h"
#include "tests/runs/training_fixture.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class CheckOfTraining : public TrainingFixture {
 protected:
  Outcome check(const std::vector<std::string>& flags) const {
    std::vector<std::string> words = {"check", path("config.yaml")};
    words.insert(words.end(), flags.begin(), flags.end());
    return run(trireme_command(words));
  }
};

TEST_F(CheckOfTraining, ComparesRanksAccumulationAndAResume) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  const Outcome outcome = check({"--model.dropout", "0.1", "--batch.accumulation", "3", "--run.dir", path("kept")});
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(
      outcome.output,
      AllOf(
          HasSubstr("start          ok           loss 3."), HasSubstr("; a guess has ln 31 = 3.4340\n"),
          ContainsRegex("accumulation   ok           4 micro-batches of 1 row and 1 of 4: losses of 3 steps differ by "
                        "at most [0-9.]+e-"),
          ContainsRegex("ranks          ok           2 ranks and 1: losses of 3 steps differ by at most "),
          HasSubstr("as configured  shown        weights in f32, gradients sent in f32: losses on 2 ranks differ "),
          ContainsRegex("resume         ok           ended after step 2, resumed to step 3: weights ([0-9a-f]{16}), "
                        "without a stop [0-9a-f]{16}\n"),
          HasSubstr("verdict        ok: 7 checks\n")));
  EXPECT_FALSE(std::filesystem::exists(path("kept"))) << "it writes a temporary folder only";
}

TEST_F(CheckOfTraining, ALossThatNoNewModelHasFails) {
  const Outcome outcome = check({"--model.logits-scale", "100", "--ranks", "1"});
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_THAT(outcome.output,
              AllOf(ContainsRegex("start          failed       loss [0-9.]+; a guess has ln 31 = 3.4340: a new model "
                                  "should be within 10 % of it: look at model.init-scheme and the scales\n"),
                    HasSubstr("ranks          not checked  --ranks 1 asks for one\n"),
                    HasSubstr("verdict        failed: start\n")));
}

TEST_F(CheckOfTraining, AModelThatDoesNotFitIsCheckedWithTwoLayers) {
  const Outcome outcome =
      check({"--model.layers", "1000", "--model.width", "1024", "--model.context", "8", "--ranks", "1"});
  EXPECT_THAT(outcome.output, ContainsRegex("layers         shown        2 of the model's, because with all this run "
                                            "needs [0-9.]+ GB per rank "));
  EXPECT_THAT(outcome.output, HasSubstr("accumulation   ok "));
}

TEST_F(CheckOfTraining, WhatCannotBeCheckedIsSaid) {
  const Outcome broken = check({"--data.dir", path("none")});
  EXPECT_EQ(broken.code, 2) << broken.output;
  EXPECT_THAT(broken.output,
              AllOf(HasSubstr("start          not checked  "), HasSubstr("verdict        not checked: start\n")));
  const Outcome other = run(trireme_command({"check", "--", "glue", "--task_name", "mrpc"}));
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.output, HasSubstr("check cannot check `glue`; train, sft and dpo can be checked"));
  EXPECT_THAT(run(trireme_command({"check"})).output,
              HasSubstr("check needs a configuration file, options, or a command"));
}

class CheckOfChat : public ChatFixture {
 protected:
  CheckOfChat() : ChatFixture("sft") {
    std::string rows;
    for (int i = 0; i < 40; ++i)
      rows += R"({"messages": [{"role": "user", "content": "the cat"}, {"role": "assistant", "content": "sat on the )" +
              std::string(i % 2 == 0 ? "mat" : "hat") +
              R"("}]})"
              "\n";
    write_text(path("data.jsonl"), rows);
  }
};

TEST_F(CheckOfChat, PackedConversationsDoNotSeeEachOther) {
  std::vector<std::string> command = {"check", "--ranks", "1", "--"};
  for (const std::string& word : words("none", {"--validation", path("absent.jsonl")})) command.push_back(word);
  const Outcome outcome = run(trireme_command(command));
  EXPECT_EQ(outcome.code, 2) << outcome.output;
  EXPECT_THAT(
      outcome.output,
      AllOf(ContainsRegex("packing        ok           40 % of the conversations: loss [0-9.]+ one by one, "
                          "[0-9.]+ packed\n"),
            HasSubstr("samples        shown        the loss counts what is in [[ ]]\n"),
            HasSubstr("<s>user:the cat</s>"), HasSubstr("[["), HasSubstr("verdict        not checked: ranks\n")));
  EXPECT_FALSE(std::filesystem::exists(path("none")));
}

}  // namespace
}  // namespace trireme
