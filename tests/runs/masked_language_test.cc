// Masked language models as a user pretrains them: text, `prepare`, `train`, `export`, `glue`.

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/rng.h"
#include "tests/runs/training_fixture.h"
#include "tests/support/paths.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

class MaskedLanguage : public TrainingFixture {
 protected:
  static constexpr int kWords = 20;

  /// Each word names the next one; some are of two pieces.
  MaskedLanguage() {
    std::string words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n##x\n";
    for (int i = 0; i < kWords; ++i) words += fmt::format("w{}\n", i);
    write_text(path("vocab.txt"), words);
    RandomStream random(5);
    std::string text;
    for (int d = 0; d < 60; ++d) {
      std::string line;
      uint64_t word = random.below(kWords);
      for (int i = 0; i < 60; ++i, word = (word * 3 + 1) % kWords)
        line += fmt::format("w{}{} ", word, word % 5 ? "" : "x");
      text += fmt::format("{{\"text\": \"{}\"}}\n", line);
    }
    write_text(path("text.jsonl"), text);
    done({"prepare", "--input", path("text.jsonl"), "--tokenizer", path("vocab.txt"), "--end-of-text", "[SEP]",
          "--val-fraction", "0.1", "--output", path("tokens")});
    write_text(path("bert.yaml"),
               fmt::format("data: {{dir: {}}}\nbatch: {{global: 12, sequence: 24}}\n"
                           "optim: {{learning_rate: 2e-3, schedule: constant}}\ncomm: {{wire: f32}}\n"
                           "evaluation: {{every: 0, batches: 2}}\ncheckpoint: {{every: 0}}\n"
                           "launch: {{threads: 1}}\nlog: {{every: 1, peak_tflops: 1}}\n",
                           path("tokens")));
  }

  static Outcome done(const std::vector<std::string>& words) {
    const Outcome outcome = run(trireme_command(words));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    return outcome;
  }
  /// `train bert.yaml --run.dir NAME ...`; without another model a new one of BERT's smallest published size.
  std::vector<std::string> pretrain(const std::string& name, const std::vector<std::string>& flags,
                                    const std::vector<std::string>& model = {"--model.preset", "bert-tiny",
                                                                             "--model.context", "32"}) const {
    std::vector<std::string> words{"train", path("bert.yaml"), "--run.dir", path(name)};
    words.insert(words.end(), model.begin(), model.end());
    words.insert(words.end(), flags.begin(), flags.end());
    return words;
  }
  void fails(const std::vector<std::string>& words, const std::string& text) const {
    const Outcome outcome = run(trireme_command(words));
    EXPECT_EQ(outcome.code, 2) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(text));
  }
};

TEST_F(MaskedLanguage, BertIsPretrainedExportedAndFineTuned) {
  const Outcome outcome = done(pretrain("run", {"--run.steps", "150", "--model.dropout", "0.1"}));
  EXPECT_THAT(outcome.output, HasSubstr("15 % of the tokens are to be predicted"));
  const auto loss = losses("run");
  EXPECT_NEAR(loss.at(1), std::log(26.0), 0.4);  // 26 ids, none known yet
  EXPECT_LT(loss.at(150), 0.6 * loss.at(1)) << "words name their neighbours";

  done({"export", "--checkpoint", path("run"), "--output", path("bert")});
  const Json config = read_json(path("bert/config.json"));
  EXPECT_EQ(config["architectures"][0], "BertForMaskedLM");
  EXPECT_EQ(config["type_vocab_size"], 2);
  EXPECT_EQ(config["hidden_dropout_prob"], 0.1);
  done(pretrain("more", {"--run.steps", "1"}, {"--model.init", path("bert")}));
  EXPECT_LT(losses("more").at(1), 0.7 * loss.at(1));

  write_text(path("rows.csv"), "sentence,label\nw1 w4,0\nw7 w2,1\nw1 w4 w13,0\nw7 w2 w7,1\n");
  const Outcome glue = done({"glue", "--model", path("bert"), "--train_file", path("rows.csv"), "--do_train",
                             "--max_steps", "2", "--max_seq_length", "16", "--output_dir", path("tuned")});
  EXPECT_EQ(read_json(path("tuned/config.json"))["architectures"][0], "BertForSequenceClassification") << glue.output;
}

TEST_F(MaskedLanguage, DistilBertLearnsWithWholeWords) {
  const Outcome outcome = done(pretrain("run", {"--run.steps", "100", "--data.whole-words", "true"},
                                        {"--model.preset", "distilbert-tiny", "--model.dropout", "0.1"}));
  EXPECT_THAT(outcome.output, HasSubstr("whole words"));
  const auto loss = losses("run");
  EXPECT_LT(loss.at(100), 0.75 * loss.at(1));
  done({"export", "--checkpoint", path("run"), "--output", path("distilbert")});
  const Json config = read_json(path("distilbert/config.json"));
  EXPECT_EQ(config["architectures"][0], "DistilBertForMaskedLM");
  EXPECT_EQ(config["dim"], 128);
}

TEST_F(MaskedLanguage, AResumedRunHasTheSameBits) {
  const std::vector<std::string> flags{"--model.dropout", "0.1", "--run.steps"};
  const auto with = [&](const char* steps) {
    auto all = flags;
    all.emplace_back(steps);
    return all;
  };
  done(pretrain("whole", with("8")));
  done(pretrain("parts", with("5")));
  EXPECT_THAT(done(pretrain("parts", with("8"))).output, HasSubstr("RESUMING from"));
  EXPECT_EQ(losses("parts"), losses("whole"));
  EXPECT_EQ(weights("parts"), weights("whole"));

  auto other = with("9");
  other.insert(other.end(), {"--data.mask-rate", "0.3"});
  fails(pretrain("parts", other), "data.mask-rate");
}

TEST_F(MaskedLanguage, AnyNumberOfRanksAndMicroBatchesGivesTheSameLosses) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  const std::vector<std::string> flags{"--run.steps", "6", "--data.whole-words", "true"};
  done(pretrain("one", flags));
  const auto one = losses("one");
  for (const int ranks : {2, 4}) {
    auto words = pretrain("many", flags);
    words.insert(words.end(), {"--batch.micro", "1", "--run.overwrite", "true", "--checkpoint.resume", "none"});
    const Outcome outcome = run(mpirun_command(ranks, words));
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    for (const auto& [step, loss] : losses("many"))
      EXPECT_NEAR(loss, one.at(step), 2e-5) << ranks << " ranks, step " << step;
    EXPECT_EQ(losses("many").size(), 6u);
  }
}

TEST_F(MaskedLanguage, SaysWhatDoesNotFit) {
  fails(train("run", {"--data.mask-rate", "0.2"}), "the model is causal and uses no masking");
  fails(train("run", {"--data.whole-words", "true"}), "the model is causal and uses no masking");
  fails(pretrain("run", {"--data.mask-end-of-text", "true"}),
        "a masked language model does not predict the next token; remove it");
  fails(pretrain("run", {"--data.dir", path("")}), "needs the tokenizer of its data");
  fails(pretrain("run", {"--batch.sequence", "2"}),
        "batch.sequence is 2, but a sample of a masked language model has at least 3");
  fails(pretrain("run", {"--model.vocabulary", "20"}), "the data's tokenizer has 26 ids, but the model has only 20");
}

}  // namespace
}  // namespace trireme
