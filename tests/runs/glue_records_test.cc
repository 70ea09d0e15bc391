// The output of fine-tuning: its records, console and folder.

#include <fmt/format.h>

#include <cmath>
#include <set>

#include "tests/runs/glue_fixture.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

class GlueRecords : public GlueFixture {
 protected:
  std::string events(const std::string& run) const {
    std::string all;
    for (const auto& entry : fs::directory_iterator(path(run) + "/tensorboard"))
      all += read_text(entry.path().string());
    return all;
  }
  /// Of trainer_state.json, without its records of training.
  Json evaluations(const std::string& run) const {
    Json found = Json::array();
    const Json state = json(run + "/trainer_state.json");
    for (const Json& entry : state["log_history"]) {
      if (entry.contains("eval_loss")) found.push_back(entry);
    }
    return found;
  }
  std::string report(const std::string& run_name) const {
    const Outcome outcome = run(trireme_command({"report", path(run_name), "--output", path(run_name + ".html")}));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    return read_text(path(run_name + ".html"));
  }
};

TEST_F(GlueRecords, HoldEveryEvaluation) {
  const Outcome outcome =
      run_on(1, "out", {"--do_train", "--do_eval", "--num_train_epochs", "3", "--eval_strategy", "epoch"});
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("evaluation at step 26: validation loss "));
  EXPECT_THAT(outcome.output, Not(HasSubstr("perplexity")));
  EXPECT_THAT(outcome.output, Not(HasSubstr("ppl")));
  EXPECT_THAT(outcome.output, HasSubstr("2 classes"));
  EXPECT_THAT(outcome.output, HasSubstr("3 epochs of 26"));
  const RunLog log = read_run_log(path("out/metrics.jsonl"));
  EXPECT_EQ(log.unit, LossUnit::row);
  ASSERT_EQ(log.evaluations.size(), 3u);
  const Json last = json("out/eval_results.json");
  const auto& values = log.evaluations[2].values;
  ASSERT_EQ(values.size(), 3u);
  EXPECT_EQ(values[0].first, "accuracy");
  EXPECT_EQ(values[1].first, "f1");
  EXPECT_EQ(values[2].first, "combined_score");
  EXPECT_EQ(values[0].second, last["eval_accuracy"].get<double>());
  EXPECT_EQ(values[1].second, last["eval_f1"].get<double>());
  EXPECT_EQ(log.evaluations[2].validation_loss, last["eval_loss"].get<double>());
  EXPECT_EQ(log.evaluations[1].epoch, 2.0);
  EXPECT_FALSE(log.steps[0].perplexity);
  EXPECT_GT(log.steps[0].updates_per_second, 0);
  EXPECT_THAT(read_text(path("out/metrics.jsonl")), HasSubstr("\"ups\":"));

  for (const char* tag : {"validation/loss", "validation/accuracy", "validation/f1", "speed/updates_per_second"})
    EXPECT_THAT(events("out"), HasSubstr(tag));
  EXPECT_THAT(events("out"), Not(HasSubstr("perplexity")));
  const std::string page = report("out");
  EXPECT_THAT(page, HasSubstr("Loss, nats per row"));
  EXPECT_THAT(page, Not(HasSubstr("nats per token")));
  EXPECT_THAT(page, HasSubstr("aria-label=\"Validation: accuracy\""));
  EXPECT_THAT(page, HasSubstr("<h2>Evaluations</h2>"));
  for (const char* step : {"<td>26</td><td>1.00</td>", "<td>52</td><td>2.00</td>", "<td>78</td><td>3.00</td>"})
    EXPECT_THAT(page, HasSubstr(step));

  const Json history = evaluations("out");
  ASSERT_EQ(history.size(), 3u);
  EXPECT_EQ(history[0]["step"], 26);
  const Json all = json("out/trainer_state.json")["log_history"];
  const auto steps = read_run_log(path("out/metrics.jsonl")).steps;
  ASSERT_FALSE(steps.empty());
  ASSERT_EQ(all.size(), steps.size() + history.size()) << "the training losses are there, too";
  EXPECT_EQ(all[0]["step"], steps[0].step);
  EXPECT_EQ(all[0]["loss"].get<double>(), steps[0].loss);
  EXPECT_GT(all[0]["epoch"].get<double>(), 0);
  for (const char* name : {"grad_norm", "learning_rate"}) EXPECT_TRUE(all[0].contains(name)) << name;
  EXPECT_EQ(history[2]["eval_accuracy"], last["eval_accuracy"]);
  const Outcome status = run(trireme_command({"status", path("out")}));
  EXPECT_THAT(status.output, HasSubstr("evaluation  at step 78: validation loss "));
  EXPECT_THAT(status.output, HasSubstr(", accuracy "));
  EXPECT_THAT(run(trireme_command({"status", path("out"), "--json"})).output,
              HasSubstr("\"evaluation\":{\"step\":78,"));
}

TEST_F(GlueRecords, KeepTheEvaluationsOfTheStartBefore) {
  const std::vector<std::string> flags{"--do_train", "--num_train_epochs", "3",    "--eval_strategy",
                                       "epoch",      "--save_strategy",    "epoch"};
  auto part = flags;
  part.insert(part.end(), {"--max_steps", "52"});
  ASSERT_EQ(run_on(1, "out", part).code, 0);
  const Outcome rest = run_on(1, "out", flags);
  ASSERT_EQ(rest.code, 0) << rest.output;
  const Json history = evaluations("out");
  ASSERT_EQ(history.size(), 3u);
  EXPECT_EQ(history[0]["step"], 26);
  EXPECT_EQ(history[2]["step"], 78);
}

TEST_F(GlueRecords, KeepBothOfMnlisSetsOverAResume) {
  fs::create_directories(path("data/MNLI"));
  const auto rows = [&](const std::string& name, int count) {
    std::string text = "index\tpromptID\tpairID\tgenre\tb1\tb2\tp1\tp2\tsentence1\tsentence2\tlabel1\tgold_label\n";
    const char* const labels[] = {"entailment", "neutral", "contradiction"};
    for (int i = 0; i < count; ++i)
      text += fmt::format("{0}\t-\t-\t-\t-\t-\t-\t-\tw{0} w2\tgood w{1}\t-\t{2}\n", i, i % 7, labels[i % 3]);
    write_text(path("data/MNLI/" + name), text);
  };
  rows("train.tsv", 32);
  rows("dev_matched.tsv", 12);
  rows("dev_mismatched.tsv", 9);
  const auto train = [&](const std::string& steps) {
    auto words = glue("out", {"--do_train", "--max_steps", steps, "--eval_strategy", "steps", "--eval_steps", "2",
                              "--save_steps", "2"});
    words[4] = "mnli";
    const Outcome outcome = run(trireme_command(words));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    return outcome.output;
  };
  EXPECT_THAT(train("4"), HasSubstr("4 (--max-steps); an epoch has 4"));
  const std::string before = read_text(path("out/metrics.jsonl"));
  train("8");
  const RunLog log = read_run_log(path("out/metrics.jsonl"));
  const Json history = evaluations("out");
  ASSERT_EQ(log.evaluations.size(), 4u);
  ASSERT_EQ(history.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(log.evaluations[i].step, static_cast<int64_t>(2 * i + 2));
    const auto& values = log.evaluations[i].values;
    ASSERT_EQ(values.size(), 3u);
    const char* const names[] = {"accuracy", "loss_mm", "accuracy_mm"};
    for (size_t k = 0; k < 3; ++k) {
      EXPECT_EQ(values[k].first, names[k]);
      EXPECT_EQ(history[i][std::string("eval_") + names[k]].get<double>(), values[k].second) << i;
    }
  }
  EXPECT_TRUE(read_text(path("out/metrics.jsonl")).starts_with(before)) << "those of the start before stay";
  for (const char* tag : {"validation/loss", "validation/accuracy", "validation/loss_mm", "validation/accuracy_mm"})
    EXPECT_THAT(events("out"), HasSubstr(tag));
  const std::string page = report("out");
  for (const char* chart :
       {"Validation: accuracy\"", "Validation: loss (mismatched)", "Validation: accuracy (mismatched)"})
    EXPECT_THAT(page, HasSubstr(chart));
  for (const char* step : {"<td>2</td><td>0.50</td>", "<td>4</td><td>1.00</td>", "<td>6</td><td>1.50</td>"})
    EXPECT_THAT(page, HasSubstr(step));
}

TEST_F(GlueRecords, OfNumbersToPredictHaveTheirOwnWords) {
  write_text(path("t.csv"), "idx,sentence,label\n7,w1 w2,0.5\n8,good w3,2.5\n9,w4,0.25\n10,good,2.75\n");
  const Outcome outcome = run(trireme_command(
      {"glue", "--model", path("model"), "--train_file", path("t.csv"), "--validation_file", path("t.csv"),
       "--output_dir", path("own"), "--do_train", "--do_eval", "--num_train_epochs", "1", "--eval_strategy", "epoch"}));
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output,
              HasSubstr("t.csv: text \"sentence\", label \"label\": a number to predict; not used: idx (numbers)"));
  EXPECT_THAT(outcome.output, HasSubstr("parameters, a number to predict"));
  EXPECT_THAT(outcome.output, HasSubstr("1: 1 epoch of 1"));
  EXPECT_THAT(outcome.output, HasSubstr("1 rank x 1 micro-batch of at most 8"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("1 classes")));
  EXPECT_THAT(outcome.output, Not(HasSubstr("ppl")));
  EXPECT_EQ(read_run_log(path("own/metrics.jsonl")).unit, LossUnit::squared_error);
  EXPECT_THAT(report("own"), HasSubstr("Loss, squared error"));
}

TEST_F(GlueRecords, LinesComeByTimeWhereStepsAreFewer) {
  const std::vector<std::string> flags{"--do_train", "--max_steps", "30", "--logging_steps", "500"};
  const auto with = [&](const char* seconds) {
    auto words = flags;
    words.insert(words.end(), {"--log.seconds", seconds});
    const Outcome outcome = run_on(1, std::string("run") + seconds, words);
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    return outcome.output;
  };
  EXPECT_THAT(with("0.0001"), HasSubstr("% step 15/30, loss "));
  EXPECT_THAT(with("0"), Not(HasSubstr("step 15/30")));
}

TEST_F(GlueRecords, ShareOfTheStepsIsAnInterval) {
  const Outcome outcome = run_on(
      1, "out",
      {"--do_train", "--max_steps", "21", "--eval_strategy", "steps", "--eval_steps", "0.5", "--save_steps", "0.3"});
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  const RunLog log = read_run_log(path("out/metrics.jsonl"));
  ASSERT_EQ(log.evaluations.size(), 1u);
  EXPECT_EQ(log.evaluations[0].step, 11);  // ceil(21 x 0.5)
  for (const char* step : {"7", "14", "21"})
    EXPECT_TRUE(fs::exists(path("out/step-000000") + (step[1] ? "" : "0") + step)) << step;
}

TEST_F(GlueRecords, TheBestModelIsTheOneAtTheEnd) {
  // The rate is so high that later epochs are worse than an earlier one.
  const std::vector<std::string> flags{"--do_train",         "--do_eval", "--num_train_epochs",       "6",
                                       "--eval_strategy",    "epoch",     "--load_best_model_at_end", "True",
                                       "--learning_rate",    "2e-2",      "--metric_for_best_model",  "eval_loss",
                                       "--save_total_limit", "1",         "--lr_scheduler_type",      "constant"};
  const Outcome outcome = run_on(1, "out", flags);
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  const Json state = json("out/trainer_state.json");
  double best = INFINITY;
  int64_t step = 0;
  for (const Json& entry : evaluations("out")) {
    if (entry["eval_loss"].get<double>() >= best) continue;
    best = entry["eval_loss"].get<double>();
    step = entry["step"].get<int64_t>();
  }
  EXPECT_EQ(state["best_metric"].get<double>(), best);
  EXPECT_EQ(state["best_global_step"], step);
  EXPECT_EQ(json("out/eval_results.json")["eval_loss"].get<double>(), best);
  auto words = glue("again", {"--do_eval"});
  words[2] = path("out");
  ASSERT_EQ(run(trireme_command(words)).code, 0);
  EXPECT_EQ(json("again/eval_results.json")["eval_loss"].get<double>(), best) << "what was written is that model";
}

TEST_F(GlueRecords, CheckpointsOfTheBestEvaluationsOnly) {
  const Outcome outcome =
      run_on(1, "out",
             {"--do_train", "--num_train_epochs", "5", "--eval_strategy", "epoch", "--save_strategy", "best",
              "--learning_rate", "2e-2", "--lr_scheduler_type", "constant"});
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  double best = INFINITY;
  std::set<std::string> expected, found;
  size_t count = 0;
  const Json state = json("out/trainer_state.json");
  for (const Json& entry : evaluations("out")) {
    ++count;
    if (entry["eval_loss"].get<double>() >= best) continue;
    best = entry["eval_loss"].get<double>();
    expected.insert(fmt::format("step-{:08}", entry["step"].get<int64_t>()));
  }
  for (const auto& entry : fs::directory_iterator(path("out"))) {
    if (entry.path().filename().string().starts_with("step-")) found.insert(entry.path().filename());
  }
  EXPECT_EQ(found, expected);
  EXPECT_LT(found.size(), count) << "no evaluation was worse: the test shows nothing";
}

TEST_F(GlueRecords, TrainingEndsWhenEvaluationsDoNotGetBetter) {
  const Outcome outcome =
      run_on(1, "out",
             {"--do_train", "--num_train_epochs", "20", "--eval_strategy", "epoch", "--load_best_model_at_end",
              "--metric_for_best_model", "accuracy", "--early_stopping_patience", "2", "--learning_rate", "0"});
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output,
              HasSubstr("training ends early: eval_accuracy has not improved in 2 evaluations in a row"));
  const RunLog log = read_run_log(path("out/metrics.jsonl"));
  EXPECT_EQ(log.evaluations.size(), 3u);
  EXPECT_EQ(log.evaluations.back().step, 78);
  EXPECT_TRUE(fs::exists(path("out/model.safetensors")));
  const Outcome unknown = run_on(1, "unknown",
                                 {"--do_train", "--max_steps", "2", "--eval_strategy", "steps", "--eval_steps", "1",
                                  "--load_best_model_at_end", "--metric_for_best_model", "bleu"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.output,
              HasSubstr("--metric-for-best-model eval_bleu is not a metric of this evaluation; choose one of"));
}

}  // namespace
}  // namespace trireme
