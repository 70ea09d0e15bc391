// What a run says about its options: at the head of its log, in its records, in its page, and when it is resumed with
// others.

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/json.h"
#include "checkpoint/run_folder/run_folder.h"
#include "tests/runs/training_fixture.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class RunOptions : public TrainingFixture {
 protected:
  Outcome trained(const std::string& name, const std::vector<std::string>& flags = {}) {
    Outcome outcome = run(trireme_command(train(name, flags)));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    return outcome;
  }
  /// The last start record of a run.
  Json start_record(const std::string& name) const {
    std::istringstream lines(read_text(path(name) + "/metrics.jsonl"));
    Json last;
    for (std::string line; std::getline(lines, line);) {
      Json record = parse_json(line, "record");
      if (record.at("record") == "start") last = std::move(record);
    }
    return last;
  }
};

TEST_F(RunOptions, AreAtTheHeadOfTheLogAndInTheRecordsWithTheirOrigin) {
  const Outcome outcome = trained("run", {"--optim.beta2", "0.99"});
  EXPECT_THAT(outcome.output,
              HasSubstr("optimizer  AdamW: betas 0.9 and 0.99, epsilon 1e-08, weight decay 0.1 of matrices, gradients "
                        "clipped to norm 1"));
  EXPECT_THAT(outcome.output, HasSubstr("rate       cosine from 0.003 to 6e-05 at step 20, after 5 steps of warm-up"));
  EXPECT_THAT(outcome.output, HasSubstr("wire       f32, but one data rank sends no gradients"));
  EXPECT_THAT(outcome.output, ContainsRegex("optim.beta2 +0.99 +flag --optim.beta2"));
  EXPECT_THAT(outcome.output, ContainsRegex("optim.learning-rate +0.003 +.*config.yaml:4"));
  EXPECT_THAT(outcome.output, Not(ContainsRegex("log.every +1 "))) << "it changes nothing that is computed";
  const Json record = start_record("run");
  EXPECT_EQ(record.at("origins").at("optim.beta2"), "flag --optim.beta2");
  EXPECT_EQ(record.at("origins").at("log.every"), path("config.yaml") + ":9");
  EXPECT_EQ(record.at("configuration").at("model").at("vocabulary"), 31);
  ASSERT_EQ(run(trireme_command({"report", path("run")})).code, 0);
  EXPECT_THAT(read_text(path("run") + "/report.html"),
              AllOf(HasSubstr("<th>optim.beta2</th><td>0.99</td><td class=\"soft\">flag --optim.beta2</td>"),
                    HasSubstr("<th>optimizer</th><td>AdamW: betas 0.9 and 0.99")));
}

TEST_F(RunOptions, ARunSaysFirstWhatItComputesWithWhatItSavesAndHowLongItIs) {
  const Outcome outcome = trained("run");
  EXPECT_THAT(outcome.output,
              ContainsRegex("length     20 steps: 0\\.19[0-9]* times the tokens of the data, 0\\.[0-9]+ per parameter "
                            "\\(for its cost a new model learns most from about 20\\)\n"));
  EXPECT_THAT(outcome.output, ContainsRegex("kernels    [a-z0-9-]+( \\([^)]+\\))?: matrix products in f32 by oneDNN; "
                                            "attention by this program in blocks, which stores no scores\n"));
  EXPECT_THAT(outcome.output,
              ContainsRegex("snapshots  0\\.[0-9] MB each: all weights, optimizer state; the disk of .*/run takes "
                            "[0-9]+ more; the newest 2 are kept, beside the best\n"));
  const Outcome all = trained("all", {"--checkpoint.keep", "0"});
  EXPECT_THAT(all.output, HasSubstr(" more; all are kept\n"));
}

TEST_F(RunOptions, ThatDifferFromTheSnapshotAreWarnedOfOneByOne) {
  trained("run");
  const Outcome same = trained("run");
  EXPECT_THAT(same.output, Not(HasSubstr("changes with this start")));
  const Outcome other = trained("run", {"--optim.learning-rate", "1e-3", "--optim.clip", "0.5", "--optim.weight-decay",
                                        "0", "--model.dropout", "0.1", "--run.steps", "40"});
  for (const char* line :
       {"optim.learning-rate changes with this start from 0.003 to 0.001 (flag --optim.learning-rate)",
        "optim.clip changes with this start from 1 to 0.5 (flag --optim.clip)",
        "optim.weight-decay changes with this start from 0.1 to 0 (flag --optim.weight-decay)",
        "model.dropout changes with this start from 0 to 0.1 (flag --model.dropout)",
        "run.steps changes with this start from 20 to 40 (flag --run.steps)",
        "the decay of the learning rate ends at step 40 instead of 20, so step 21 trains with"})
    EXPECT_THAT(other.output, HasSubstr(line));
  EXPECT_THAT(other.output, HasSubstr("a rate that had fallen rises again; --optim.decay-steps 20 keeps"));
  const Outcome kept = trained("kept", {"--checkpoint.resume", path("run"), "--optim.learning-rate", "1e-3",
                                        "--optim.clip", "0.5", "--optim.weight-decay", "0", "--model.dropout", "0.1",
                                        "--run.steps", "41", "--optim.decay-steps", "40"});
  EXPECT_THAT(kept.output, Not(HasSubstr("the decay of the learning rate")));
}

TEST_F(RunOptions, OfAModelThatAFolderHoldsAreTheFolders) {
  trained("base");
  const std::string hf = path("hf");
  ASSERT_EQ(run(trireme_command({"export", "--model", path("base"), "--output", hf})).code, 0);
  for (const std::string& folder : {hf, path("base")}) {
    SCOPED_TRACE(folder);
    const Outcome shown = run(trireme_command({"config", "show", "--model.init", folder}));
    ASSERT_EQ(shown.code, 0) << shown.output;
    EXPECT_THAT(shown.output, ContainsRegex("\n  layers: 2  # .*" + folder));
    EXPECT_THAT(shown.output, ContainsRegex("\n  width: 32  # .*" + folder));
    EXPECT_THAT(shown.output, ContainsRegex("\n  vocabulary: 31  # .*" + folder));
    EXPECT_THAT(shown.output, Not(HasSubstr("layers: 12")));
  }
  const std::vector<std::string> tuned = {
      "train",       "--model.init",       hf,  "--data.dir",     path("."), "--run.dir",
      path("tuned"), "--run.steps",        "2", "--batch.global", "4",       "--log.peak-tflops",
      "1",           "--evaluation.every", "0"};
  const Outcome outcome = run(trireme_command(tuned));
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  const Json record = start_record("tuned");
  EXPECT_EQ(record.at("configuration").at("model").at("layers"), 2);
  EXPECT_EQ(record.at("configuration").at("model").at("width"), 32);
  EXPECT_EQ(record.at("origins").at("model.layers"), hf);
  // Another depth is found before anything is allocated.
  std::vector<std::string> deeper = tuned;
  deeper.insert(deeper.end(), {"--model.layers", "3", "--run.dir", path("deeper")});
  const Outcome refused = run(trireme_command(deeper));
  EXPECT_EQ(refused.code, 2) << refused.output;
  EXPECT_THAT(refused.output,
              HasSubstr("holds a different model than the configuration describes: layers is 2, not 3"));
  EXPECT_THAT(refused.output, Not(HasSubstr("memory  ")));
}

TEST_F(RunOptions, ChooseTheColumnsOfALine) {
  const Outcome usual = trained("usual");
  std::istringstream lines(usual.output);
  size_t steps = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("step ")) continue;
    ++steps;
    EXPECT_LE(line.size(), 120u) << line;
  }
  EXPECT_EQ(steps, 20u);
  EXPECT_THAT(trained("chosen", {"--log.columns", "samples, loss"}).output,
              ContainsRegex("\nstep 20/20 \\| 240 samples \\| loss +[0-9.]+\n"));
  const Outcome wrong = run(trireme_command(train("wrong", {"--log.columns", "loss,speed"})));
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.output,
              HasSubstr("unknown column \"speed\"; expected all, or some of epoch, loss, mean, lr, grad, tok/s"));
}

TEST_F(RunOptions, AFailedAttemptIsOneInTheRecords) {
  const Outcome failed = run(trireme_command(train("run", {"--run.on-spike", "roll-back", "--run.spike-score", "1e-9",
                                                           "--checkpoint.also", "1", "--run.steps", "1000"})));
  EXPECT_EQ(failed.code, 1) << failed.output;
  EXPECT_THAT(failed.output, HasSubstr("the loss spiked again after rolling back"));
  const RunLog log = read_run_log(path("run") + "/metrics.jsonl");
  ASSERT_FALSE(log.attempts.empty());
  EXPECT_EQ(log.attempts.back().state, "failed");
}

TEST_F(RunOptions, TheLastLineNamesTheBestSnapshotAndHowToExportIt) {
  const Outcome outcome = trained("run", {"--evaluation.every", "10"});
  const auto step = read_pointer(path("run"), "best");
  ASSERT_TRUE(step);
  const std::string best = path("run") + "/" + step_name(*step);
  EXPECT_THAT(outcome.output, ContainsRegex("best snapshot: " + best +
                                            ", validation loss [0-9.]+; `trireme export "
                                            "--model " +
                                            best + " --output FOLDER`"));
  const Outcome exported = run(trireme_command({"export", "--model", best, "--output", path("exported")}));
  EXPECT_EQ(exported.code, 0) << exported.output;
}

}  // namespace
}  // namespace trireme
