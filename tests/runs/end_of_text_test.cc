// Training in which nothing is to be predicted from the token that ends a document.

#include <gmock/gmock.h>

#include "tests/runs/training_fixture.h"

namespace trireme {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class EndOfText : public TrainingFixture {
 protected:
  EndOfText() {
    std::string lines;
    for (int i = 0; i < 600; ++i) lines += fmt::format("{{\"text\": \"{} is {}\"}}\n", i, i * i % 7);
    write_text(path("lines.jsonl"), lines);
    const std::string text = path("lines.jsonl");
    done(run(trireme_command(
        {"tokenizer", "train", "--input", text, "--vocab-size", "300", "--output", path("tokenizer")})));
    done(run(trireme_command({"prepare", "--format", "megatron", "--input", text, "--tokenizer", path("tokenizer"),
                              "--append-eod", "--output", path("lines")})));
  }
  static Outcome done(const Outcome& outcome) {
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    return outcome;
  }
  /// Micro-batches of 2, which differ in how many ends they have.
  Outcome start(const std::string& name, std::vector<std::string> more, int ranks = 1) const {
    std::vector<std::string> flags = {"--model.vocabulary", "0", "--data.train",  path("lines_text_document"),
                                      "--data.validation",  "",  "--batch.micro", "2",
                                      "--run.steps",        "4"};
    if (std::ranges::find(more, "--data.tokenizer") == more.end())
      flags.insert(flags.end(), {"--data.tokenizer", path("tokenizer")});
    flags.insert(flags.end(), more.begin(), more.end());
    return ranks == 1 ? run(trireme_command(train(name, flags))) : run(mpirun_command(ranks, train(name, flags)));
  }
};

TEST_F(EndOfText, ChangesTheLossAndSoDoesWhatItIsAMeanOver) {
  done(start("plain", {}));
  const Outcome masked = done(start("masked", {"--data.mask-end-of-text", "true"}));
  EXPECT_THAT(masked.output, ContainsRegex("masking +tokens after the end of a document do not count in the loss"));
  done(start("means", {"--data.mask-end-of-text", "true", "--optim.loss-mean", "micro-batches"}));
  EXPECT_NE(losses("plain").at(1), losses("masked").at(1));
  EXPECT_NE(losses("masked").at(1), losses("means").at(1));
  EXPECT_NEAR(losses("masked").at(1), losses("means").at(1), 0.05);
  // Where every token counts both means are one.
  done(start("even", {"--optim.loss-mean", "micro-batches"}));
  EXPECT_NEAR(losses("plain").at(4), losses("even").at(4), 1e-5);
}

TEST_F(EndOfText, RanksGetTheSameMeans) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  const std::vector<std::string> flags = {"--data.mask-end-of-text", "true", "--optim.loss-mean", "micro-batches"};
  done(start("one", flags));
  done(start("three", flags, 3));
  for (const auto& [step, loss] : losses("one")) EXPECT_NEAR(losses("three").at(step), loss, 1e-4) << step;
}

TEST_F(EndOfText, AnotherChoiceThanTheSnapshotsIsRefused) {
  done(start("run", {"--data.mask-end-of-text", "true"}));
  const Outcome other = start("run", {"--run.steps", "5"});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.output, ContainsRegex("data.mask-end-of-text +true +false +--checkpoint.allow-other-data"));
}

TEST_F(EndOfText, NeedsToKnowTheToken) {
  const Outcome none = run(trireme_command(train("none", {"--data.mask-end-of-text", "true"})));
  EXPECT_EQ(none.code, 2) << none.output;
  EXPECT_THAT(none.output, HasSubstr("data.mask-end-of-text needs to know which token ends a document, but there is no "
                                     "tokenizer.json beside the data; name it with --data.tokenizer"));
  write_text(path("text.txt"), "letters have no end of text\n");
  done(run(
      trireme_command({"prepare", "--input", path("text.txt"), "--tokenizer", "char", "--output", path("letters")})));
  const Outcome letters =
      start("letters-run", {"--data.mask-end-of-text", "true", "--data.tokenizer", path("letters/tokenizer.json")});
  EXPECT_EQ(letters.code, 2) << letters.output;
  EXPECT_THAT(letters.output, HasSubstr("the data's tokenizer has no such token (<|endoftext|>, </s>)"));
}

}  // namespace
}  // namespace trireme
