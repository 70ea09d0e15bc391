// The effects of a fine-tuning run's arguments.

#include <signal.h>

#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/run_folder/run_folder.h"
#include "tests/runs/glue_fixture.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class GlueOptionsTest : public GlueFixture {
 protected:
  void done(const std::string& name, const std::vector<std::string>& flags) const {
    const Outcome outcome = run_on(1, name, flags);
    ASSERT_EQ(outcome.code, 0) << outcome.output;
  }
  static size_t count(const std::string& text, const std::string& part) {
    size_t n = 0;
    for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
    return n;
  }
};

TEST_F(GlueOptionsTest, AccumulationGivesTheSameLossesAsOneLargeBatch) {
  done("whole", {"--do_train", "--max_steps", "30"});  // past the epoch's last step, of 3 rows
  done("parts",
       {"--do_train", "--max_steps", "30", "--per_device_train_batch_size", "2", "--gradient_accumulation_steps", "4"});
  const auto whole = losses("whole"), parts = losses("parts");
  ASSERT_EQ(whole.size(), 30u);
  ASSERT_EQ(parts.size(), 30u);
  for (const auto& [step, loss] : whole) EXPECT_NEAR(parts.at(step), loss, 2e-5) << step;
}

TEST_F(GlueOptionsTest, BatchesCutByTokensGiveTheSameLosses) {
  done("rows", {"--do_train", "--do_eval", "--max_steps", "30"});
  const Outcome outcome =
      run_on(1, "tokens", {"--do_train", "--do_eval", "--max_steps", "30", "--per_device_max_tokens", "40"});
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("8 rows per step: 1 rank x micro-batches of at most 8 rows and 40 tokens"));
  const auto by_rows = losses("rows"), by_tokens = losses("tokens");
  ASSERT_EQ(by_rows.size(), by_tokens.size());
  for (const auto& [step, loss] : by_rows) EXPECT_NEAR(by_tokens.at(step), loss, 2e-5) << step;
  EXPECT_NEAR(json("tokens/eval_results.json")["eval_loss"].get<double>(),
              json("rows/eval_results.json")["eval_loss"].get<double>(), 1e-5);
  if (mpirun_path().empty()) return;
  ASSERT_EQ(
      run_on(2, "ranks",
             {"--do_train", "--max_steps", "30", "--per_device_train_batch_size", "4", "--per_device_max_tokens", "25"})
          .code,
      0);
  const auto on_ranks = losses("ranks");
  for (const auto& [step, loss] : by_rows) EXPECT_NEAR(on_ranks.at(step), loss, 2e-5) << step;
}

TEST_F(GlueOptionsTest, SmoothedLabelsAreSharedByAllClasses) {
  // All 203 rows in one step of rate 0, then as the validation set: the loss of both, before anything is learned.
  fs::copy_file(path("data/MRPC/train.tsv"), path("data/MRPC/dev.tsv"), fs::copy_options::overwrite_existing);
  const auto loss_with = [&](const std::string& factor, int ranks) {
    const std::string name = "smooth" + factor + "-" + std::to_string(ranks);
    const Outcome outcome = run_on(ranks, name,
                                   {"--do_train", "--do_eval", "--max_steps", "1", "--learning_rate", "0",
                                    "--per_device_train_batch_size", "203", "--label_smoothing_factor", factor});
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    const double loss = losses(name).at(1);
    EXPECT_NEAR(json(name + "/eval_results.json")["eval_loss"].get<double>(), loss, 1e-6) << factor;
    return loss;
  };
  const double plain = loss_with("0", 1), shared = loss_with("1", 1), smoothed = loss_with("0.25", 1);
  EXPECT_GT(std::abs(shared - plain), 1e-5) << "else the next line says nothing";
  EXPECT_NEAR(smoothed, 0.75 * plain + 0.25 * shared, 1e-6);
  if (!mpirun_path().empty()) {
    EXPECT_NEAR(loss_with("0.25", 2), smoothed, 1e-6);
  }

  write_text(path("t.csv"), "sentence,label\nw1 w2,0.5\ngood w3,2.5\n");
  const Outcome numbers = run(trireme_command({"glue", "--model", path("model"), "--train_file", path("t.csv"),
                                               "--output_dir", path("own"), "--do_train", "--label_smoothing", "0.1"}));
  EXPECT_EQ(numbers.code, 2);
  EXPECT_THAT(
      numbers.output,
      HasSubstr("--label-smoothing-factor is 0.1, but this task predicts a number and has no classes; remove it"));
}

TEST_F(GlueOptionsTest, BfloatLearnsWhatF32Learns) {
  done("f32", {"--do_train", "--do_eval", "--num_train_epochs", "8"});
  done("bf16", {"--do_train", "--do_eval", "--num_train_epochs", "8", "--bf16"});
  const auto wide = losses("f32"), narrow = losses("bf16");
  for (int64_t step = 1; step <= 10; ++step) EXPECT_NEAR(narrow.at(step), wide.at(step), 0.03) << step;
  EXPECT_NE(narrow, wide);
  EXPECT_GE(json("bf16/eval_results.json")["eval_accuracy"].get<double>(), 0.95);
}

TEST_F(GlueOptionsTest, StrategiesSayWhenToEvaluateSaveAndLog) {
  const Outcome outcome = run_on(1, "out",
                                 {"--do_train", "--num_train_epochs", "2", "--eval_strategy", "steps", "--eval_steps",
                                  "20", "--save_strategy", "epoch", "--logging_strategy", "epoch"});
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(count(outcome.output, "***** eval metrics *****"), 2u) << "steps 20 and 40 of 52";
  EXPECT_EQ(list_steps(path("out")), (std::vector<int64_t>{26, 52}));
  EXPECT_EQ(losses("out").size(), 2u);
  EXPECT_TRUE(losses("out").contains(26));
  EXPECT_FALSE(fs::exists(path("out/eval_results.json"))) << "without --do_eval";
}

TEST_F(GlueOptionsTest, SampleLimitsTakeTheFirstRows) {
  done("out", {"--do_train", "--do_eval", "--do_predict", "--max_train_samples", "20", "--max_eval_samples", "10",
               "--max_predict_samples", "3", "--num_train_epochs", "1"});
  EXPECT_EQ(losses("out").size(), 3u);  // ceil(20 / 8)
  EXPECT_EQ(json("out/train_results.json")["train_samples"], 20);
  EXPECT_EQ(json("out/eval_results.json")["eval_samples"], 10);
  EXPECT_EQ(count(read_text(path("out/predict_results_mrpc.txt")), "\n"), 4u);
}

TEST_F(GlueOptionsTest, ResultsHaveRunGluesNames) {
  done("out", {"--do_train", "--do_eval", "--max_steps", "3"});
  for (const char* name :
       {"epoch", "train_loss", "train_runtime", "train_samples", "train_samples_per_second", "train_steps_per_second"})
    EXPECT_TRUE(json("out/train_results.json").contains(name)) << name;
  for (const char* name : {"epoch", "eval_loss", "eval_accuracy", "eval_f1", "eval_combined_score", "eval_runtime",
                           "eval_samples", "eval_samples_per_second", "eval_steps_per_second"}) {
    EXPECT_TRUE(json("out/eval_results.json").contains(name)) << name;
    EXPECT_TRUE(json("out/all_results.json").contains(name)) << name;
  }
}

TEST_F(GlueOptionsTest, ResumesFromANamedCheckpoint) {
  const std::vector<std::string> flags{"--do_train", "--lr_scheduler_type", "constant", "--save_steps", "5"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), flags.begin(), flags.end());
    return more;
  };
  done("first", with({"--max_steps", "15"}));
  done("second", with({"--max_steps", "15", "--resume_from_checkpoint", path("first/step-00000010")}));
  const auto first = losses("first"), second = losses("second");
  EXPECT_EQ(second.begin()->first, 11);
  for (const auto& [step, loss] : second) EXPECT_EQ(loss, first.at(step)) << step;
  const Outcome none = run_on(1, "third", with({"--max_steps", "15", "--resume_from_checkpoint", path("absent")}));
  EXPECT_NE(none.code, 0);
  EXPECT_THAT(none.output, HasSubstr(path("absent")));
}

TEST_F(GlueOptionsTest, ASignalStopsWithACheckpointAndTheSameCommandResumes) {
  const std::vector<std::string> flags{"--do_train", "--lr_scheduler_type", "constant", "--max_steps"};
  const auto with = [&](const std::string& steps) {
    auto all = flags;
    all.push_back(steps);
    return glue("run", all);
  };
  Program program(trireme_command(with("100000")));
  ASSERT_TRUE(program.wait_for([](const std::string& out) { return out.find("step      5/") != out.npos; }))
      << program.output();
  kill(program.pid(), SIGTERM);
  const Outcome stopped = program.finish();
  EXPECT_EQ(stopped.code, 75) << stopped.output;
  const int64_t step = open_checkpoint(path("run")).facts.progress.step;
  EXPECT_GE(step, 5);
  EXPECT_THAT(stopped.output, HasSubstr(fmt::format("stopped after step {}: run the same command to resume", step)));
  EXPECT_THAT(read_text(path("run/status.json")), HasSubstr("\"stopped\""));
  EXPECT_FALSE(fs::exists(path("run/model.safetensors")));

  const Outcome again = run(trireme_command(with(std::to_string(step + 2))));
  EXPECT_EQ(again.code, 0) << again.output;
  EXPECT_THAT(again.output, HasSubstr(fmt::format("{} steps and", step)));
  EXPECT_TRUE(fs::exists(path("run/model.safetensors")));
}

TEST_F(GlueOptionsTest, ASignalStopsAnEvaluation) {
  ASSERT_EQ(run_on(1, "tuned", {"--do_train", "--max_steps", "2"}).code, 0);
  write_rows("data/MRPC/dev.tsv", 300'000, 2);
  auto words = glue("evaluated", {"--do_eval", "--per_device_eval_batch_size", "1"});
  words[2] = path("tuned");
  Program program(trireme_command(words));
  ASSERT_TRUE(program.wait_for([](const std::string& out) { return out.find("evaluating") != out.npos; }))
      << program.output();
  kill(program.pid(), SIGTERM);
  const Outcome stopped = program.finish();
  EXPECT_EQ(stopped.code, 75) << stopped.output;
  EXPECT_THAT(stopped.output, HasSubstr("stopped before all rows were classified"));
  EXPECT_FALSE(fs::exists(path("evaluated/eval_results.json")));
}

}  // namespace
}  // namespace trireme
