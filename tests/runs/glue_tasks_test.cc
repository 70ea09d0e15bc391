// Every task of GLUE from its original files, and on several ranks.

#include <algorithm>

#include "tests/runs/glue_fixture.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

/// Files of a task in its own columns, a handful of rows each.
struct TaskFiles {
  const char* task;
  const char* folder;
  std::vector<std::pair<const char*, std::string>> files;
  std::vector<const char*> metrics;
};

class GlueTasks : public GlueFixture {
 protected:
  /// header, then rows by a pattern in which {0} is the number, {1} the label.
  static std::string table(const std::string& header, const std::string& row, const std::vector<std::string>& labels,
                           int count) {
    std::string text = header.empty() ? "" : header + "\n";
    for (int i = 0; i < count; ++i)
      text += fmt::format(fmt::runtime(row), i, labels[static_cast<size_t>(i) % labels.size()]) + "\n";
    return text;
  }

  static std::vector<TaskFiles> all() {
    const std::vector<std::string> two{"0", "1"}, entailment{"entailment", "not_entailment"},
        three{"entailment", "neutral", "contradiction"};
    const std::string pair_header = "index\tsentence1\tsentence2", pair = "{0}\tw{0} w1\tgood w{0}",
                      qqp = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
                      mnli = "index\tpromptID\tpairID\tgenre\tb1\tb2\tp1\tp2\tsentence1\tsentence2",
                      mnli_row = "{0}\t-\t-\t-\t-\t-\t-\t-\tw{0} w2\tw{0} w3",
                      stsb = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2";
    const auto labelled = [](const std::string& header, const std::string& row,
                             const std::vector<std::string>& labels) {
      return std::vector<std::pair<const char*, std::string>>{
          {"train.tsv", table(header + "\tlabel", row + "\t{1}", labels, 9)},
          {"dev.tsv", table(header + "\tlabel", row + "\t{1}", labels, 6)},
          {"test.tsv", table(header, row, {""}, 5)}};
    };
    const std::string cola = "src\t{1}\t\tw{0} w1 \"w2\"";
    return {{"cola",
             "CoLA",
             {{"train.tsv", table("", cola, two, 9)},
              {"dev.tsv", table("", cola, two, 6)},
              {"test.tsv", table("index\tsentence", "{0}\tw{0}", {""}, 5)}},
             {"matthews_correlation"}},
            {"sst2",
             "SST-2",
             {{"train.tsv", table("sentence\tlabel", "w{0} good \t{1}", two, 9)},
              {"dev.tsv", table("sentence\tlabel", "w{0} good \t{1}", two, 6)},
              {"test.tsv", table("index\tsentence", "{0}\tw{0}", {""}, 5)}},
             {"accuracy"}},
            {"stsb",
             "STS-B",
             {{"train.tsv", table(stsb + "\tscore", "{0}\t-\t-\t-\t-\t-\t-\tw{0}\tgood\t{1}", {"0.5", "4.250"}, 9)},
              {"dev.tsv", table(stsb + "\tscore", "{0}\t-\t-\t-\t-\t-\t-\tw{0}\tgood\t{1}", {"0.5", "4.250"}, 6)},
              {"test.tsv", table(stsb, "{0}\t-\t-\t-\t-\t-\t-\tw{0}\tgood", {""}, 5)}},
             {"pearson", "spearmanr", "combined_score"}},
            {"qqp",
             "QQP",
             {{"train.tsv", table(qqp, "{0}\t1\t2\tw{0}\tw1\t{1}", two, 9)},
              {"dev.tsv", table(qqp, "{0}\t1\t2\tw{0}\tw1\t{1}", two, 6)},
              {"test.tsv", table("id\tquestion1\tquestion2", "{0}\tw{0}\tw1", {""}, 5)}},
             {"accuracy", "f1", "combined_score"}},
            {"mnli",
             "MNLI",
             {{"train.tsv", table(mnli + "\tlabel1\tgold_label", mnli_row + "\tneutral\t{1}", three, 9)},
              {"dev_matched.tsv", table(mnli + "\tlabel1\tlabel2\tgold_label", mnli_row + "\t-\t-\t{1}", three, 6)},
              {"dev_mismatched.tsv", table(mnli + "\tlabel1\tgold_label", mnli_row + "\t-\t{1}", three, 7)},
              {"test_matched.tsv", table(mnli, mnli_row, {""}, 5)},
              {"test_mismatched.tsv", table(mnli, mnli_row, {""}, 4)}},
             {"accuracy", "accuracy_mm"}},
            {"qnli", "QNLI", labelled("index\tquestion\tsentence", pair, entailment), {"accuracy"}},
            {"rte", "RTE", labelled(pair_header, pair, entailment), {"accuracy"}},
            {"wnli", "WNLI", labelled(pair_header, pair, two), {"accuracy"}}};
  }

  void write(const TaskFiles& files) const {
    fs::create_directories(path(std::string("data/") + files.folder));
    for (const auto& [name, text] : files.files) write_text(path(fmt::format("data/{}/{}", files.folder, name)), text);
  }
  Outcome tune(const std::string& task, const std::string& name, std::vector<std::string> flags) const {
    flags.insert(flags.begin(), {"--task", task});
    auto words = glue(name, flags);
    words.erase(words.begin() + 3, words.begin() + 5);  // the fixture's own --task_name
    return run(trireme_command(words));
  }
  size_t lines(const std::string& name) const {
    const std::string text = read_text(path(name));
    return static_cast<size_t>(std::ranges::count(text, '\n'));
  }
};

TEST_F(GlueTasks, AllTrainEvaluateAndPredict) {
  for (const TaskFiles& files : all()) {
    write(files);
    const std::string name = files.task;
    const Outcome outcome = tune(name, name, {"--do_train", "--max_steps", "1", "--do_eval", "--do_predict"});
    ASSERT_EQ(outcome.code, 0) << name << outcome.output;
    const Json results = json(name + "/eval_results.json");
    for (const char* metric : files.metrics) EXPECT_TRUE(results.contains(std::string("eval_") + metric)) << name;
    EXPECT_EQ(results["eval_samples"], 6) << name;
    EXPECT_EQ(lines(name + "/predict_results_" + name + ".txt"), 6u) << name;  // with the header
  }
  EXPECT_EQ(json("mnli/eval_results.json")["eval_samples_mm"], 7);
  EXPECT_EQ(lines("mnli/predict_results_mnli-mm.txt"), 5u);
  EXPECT_THAT(read_text(path("wnli/predict_results_wnli.txt")), HasSubstr("entailment"));
  EXPECT_EQ(json("stsb/config.json")["problem_type"], "regression");
}

TEST_F(GlueTasks, AModelOfMnliPredictsTheDiagnosticSet) {
  write(all()[4]);
  ASSERT_EQ(tune("mnli", "mnli", {"--do_train", "--max_steps", "1"}).code, 0);
  fs::create_directories(path("data/AX"));
  write_text(path("data/AX/diagnostic.tsv"), "index\tsentence1\tsentence2\n0\tw1\tw2\n1\tw3\tgood\n");
  auto words = glue("ax", {"--task", "ax", "--do_predict"});
  words.erase(words.begin() + 3, words.begin() + 5);
  words[2] = path("mnli");
  const Outcome outcome = run(trireme_command(words));
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(lines("ax/predict_results_ax.txt"), 3u);
  EXPECT_THAT(outcome.output, Not(HasSubstr("was not trained on")));
  EXPECT_THAT(outcome.output, HasSubstr("AX/diagnostic.tsv has 2 rows, the published file of ax has 1104"));
  const Outcome train = tune("ax", "never", {"--do_train"});
  EXPECT_EQ(train.code, 2);
  EXPECT_THAT(train.output, HasSubstr("it can only be predicted"));
}

/// A head of another number of classes, or of numbers, is newly initialized; the records have both sets of MNLI.
TEST_F(GlueTasks, AModelOfAnotherTaskGetsANewHead) {
  for (const auto& task : all()) write(task);
  const Outcome mnli =
      tune("mnli", "three", {"--do_train", "--max_steps", "2", "--eval_strategy", "steps", "--eval_steps", "2"});
  ASSERT_EQ(mnli.code, 0) << mnli.output;
  std::vector<std::string> names;
  const RunLog log = read_run_log(path("three/metrics.jsonl"));
  for (const auto& named : log.evaluations.at(0).values) names.push_back(named.first);
  EXPECT_EQ(names, (std::vector<std::string>{"accuracy", "loss_mm", "accuracy_mm"}));
  for (const auto& [task, classes] : {std::pair{"mrpc", 2}, {"rte", 2}, {"stsb", 1}}) {
    auto words = glue(std::string("of-") + task, {"--do_train", "--max_steps", "2", "--task", task});
    words.erase(words.begin() + 3, words.begin() + 5);
    words[2] = path("three");
    const Outcome outcome = run(trireme_command(words));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(fmt::format("its head is for another task with other classes; a new one is "
                                                      "initialised: classifier.bias ([3] there, [{}] here), "
                                                      "classifier.weight ([3, 32] there, [{}, 32] here)",
                                                      classes, classes)));
    EXPECT_EQ(json(std::string("of-") + task + "/config.json").value("finetuning_task", ""), task);
  }
}

TEST_F(GlueTasks, AModelWithoutTheTaskGivesAWarning) {
  fs::create_directories(path("data/AX"));
  write_text(path("data/AX/diagnostic.tsv"), "index\tsentence1\tsentence2\n0\tw1\tw2\n1\tw3\tgood\n");
  const auto answers = [&](const std::string& model, const std::string& task, const std::string& what) {
    auto words = glue(model + "-" + task, {"--task", task, what});
    words.erase(words.begin() + 3, words.begin() + 5);
    words[2] = path(model);
    const Outcome outcome = run(trireme_command(words));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    return outcome.output;
  };
  // No classifier at all.
  EXPECT_THAT(answers("model", "ax", "--do_predict"),
              HasSubstr("warning: " + path("model") +
                        " was not trained on mnli: it has no classifier, so a new one gets random weights. Its "
                        "predictions are meaningless; fine-tune it first (--do_train --task_name mnli)"));
  EXPECT_THAT(answers("model", "mrpc", "--do_eval"), HasSubstr("was not trained on mrpc: it has no classifier"));
  // Three classes of something else.
  write(all()[4]);
  ASSERT_EQ(tune("mnli", "three", {"--do_train", "--max_steps", "1"}).code, 0);
  Json config = json("three/config.json");
  config.erase("finetuning_task");
  config["id2label"] = {{"0", "LABEL_0"}, {"1", "LABEL_1"}, {"2", "LABEL_2"}};
  write_text(path("three/config.json"), config.dump());
  EXPECT_THAT(answers("three", "ax", "--do_predict"),
              HasSubstr("has neither finetuning_task mnli nor the classes entailment, neutral, contradiction"));
  // The classes of another task: only the recorded task differs.
  for (const size_t i : {size_t{5}, size_t{6}}) write(all()[i]);
  ASSERT_EQ(tune("rte", "rte", {"--do_train", "--max_steps", "1"}).code, 0);
  EXPECT_THAT(answers("rte", "qnli", "--do_eval"), HasSubstr("was not trained on qnli: it was fine-tuned on rte"));
  EXPECT_THAT(answers("rte", "rte", "--do_eval"), Not(HasSubstr("was not trained")));
}

TEST_F(GlueTasks, TheClassesOfAModelHaveItsOwnOrder) {
  write(all()[4]);
  ASSERT_EQ(tune("mnli", "mnli", {"--do_train", "--max_steps", "20"}).code, 0);
  const auto predict = [&](const std::string& name, const std::vector<std::string>& classes) {
    fs::copy(path("mnli"), path(name));
    Json config = json(name + "/config.json");
    config["id2label"] = Json::object();
    for (size_t i = 0; i < classes.size(); ++i) config["id2label"][std::to_string(i)] = classes[i];
    write_text(path(name + "/config.json"), config.dump());
    auto words = glue(name + "-out", {"--task", "mnli", "--do_predict"});
    words.erase(words.begin() + 3, words.begin() + 5);
    words[2] = path(name);
    return run(trireme_command(words));
  };
  const auto predicted = [&](const std::string& name) {
    return read_text(path(name + "-out/predict_results_mnli.txt"));
  };
  ASSERT_EQ(predict("same", {"entailment", "neutral", "contradiction"}).code, 0);
  ASSERT_EQ(predict("other", {"NEUTRAL", "CONTRADICTION", "ENTAILMENT"}).code, 0);
  std::string turned = predicted("same");
  const std::vector<std::pair<std::string, std::string>> turns{{"entailment", "#0"},    {"neutral", "#1"},
                                                               {"contradiction", "#2"}, {"#0", "neutral"},
                                                               {"#1", "contradiction"}, {"#2", "entailment"}};
  for (const auto& [from, to] : turns) {
    for (size_t at = 0; (at = turned.find(from, at)) != turned.npos; at += to.size())
      turned.replace(at, from.size(), to);
  }
  EXPECT_NE(predicted("other"), predicted("same"));
  EXPECT_EQ(predicted("other"), turned);

  const Outcome unknown = predict("unknown", {"yes", "perhaps", "no"});
  EXPECT_EQ(unknown.code, 0);
  EXPECT_THAT(unknown.output, HasSubstr("the model was fine-tuned on the classes yes, perhaps, no, but the rows have "
                                        "the classes entailment, neutral, contradiction, in this order"));
  EXPECT_EQ(predicted("unknown"), predicted("same"));
}

class GlueRanks : public GlueTasks {
 protected:
  void SetUp() override {
    if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  }
};

TEST_F(GlueRanks, AStepTakesTheRowsOfAllRanks) {
  for (const auto& [ranks, steps] : {std::pair{2, 13u}, {4, 7u}}) {  // of 203 rows, 8 per rank
    const std::string name = fmt::format("on-{}", ranks);
    const Outcome outcome = run_on(ranks, name, {"--do_train", "--num_train_epochs", "1"});
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_EQ(losses(name).size(), steps);
  }
}

TEST_F(GlueRanks, RefuseAFolderThatAnotherJobHas) {
  Program first(trireme_command(glue("run", {"--do_train", "--max_steps", "100000"})));
  ASSERT_TRUE(first.wait_for([](const std::string& out) { return out.find("step      5/") != out.npos; }))
      << first.output();
  const Outcome second = run_on(3, "run", {"--do_train", "--max_steps", "5"});
  EXPECT_EQ(second.code, 1) << second.output;
  EXPECT_THAT(second.output, HasSubstr(fmt::format("belongs to process {} on ", first.pid())));
  EXPECT_THAT(second.output, Not(HasSubstr("was lost")));
  EXPECT_TRUE(first.running());
  kill(first.pid(), SIGTERM);
  EXPECT_EQ(first.finish().code, 75);
}

TEST_F(GlueRanks, PredictEveryRowOnceInItsPlace) {
  std::string test = "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n";
  for (int i = 0; i < 23; ++i) test += fmt::format("{}\t1\t2\tw{} w2\t{} w3\n", i, i, i % 3 ? "good" : "w9");
  write_text(path("data/MRPC/test.tsv"), test);
  ASSERT_EQ(run_on(1, "tuned", {"--do_train", "--num_train_epochs", "4"}).code, 0);
  const auto predict = [&](int ranks) {
    const std::string name = fmt::format("on-{}", ranks);
    auto words = glue(name, {"--do_predict", "--do_eval", "--per_device_eval_batch_size", "2"});
    words[2] = path("tuned");
    const Outcome outcome = run(ranks == 1 ? trireme_command(words) : mpirun_command(ranks, words));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    return read_text(path(name + "/predict_results_mrpc.txt"));
  };
  const std::string alone = predict(1);
  EXPECT_THAT(alone, HasSubstr("22\t"));
  EXPECT_THAT(alone, HasSubstr("\tequivalent"));
  EXPECT_EQ(predict(4), alone);
  const Json one = json("on-1/eval_results.json"), four = json("on-4/eval_results.json");
  EXPECT_EQ(one["eval_accuracy"], four["eval_accuracy"]);
  EXPECT_NEAR(one["eval_loss"].get<double>(), four["eval_loss"].get<double>(), 1e-6);
}

TEST_F(GlueRanks, GiveTheSameLossesPredictionsAndModelOnEveryLayout) {
  const auto flags = [](const std::vector<std::string>& more, int data) {
    std::vector<std::string> words{"--do_train",
                                   "--do_eval",
                                   "--do_predict",
                                   "--max_steps",
                                   "20",
                                   "--per_device_train_batch_size",
                                   std::to_string(8 / data)};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  ASSERT_EQ(run_on(1, "alone", flags({}, 1)).code, 0);
  const struct {
    int ranks, data;
    std::string name;
    std::vector<std::string> layout;
  } layouts[] = {{2, 1, "tensor", {"--mesh.tensor", "2"}},
                 {2, 1, "sequence", {"--mesh.tensor", "2", "--mesh.sequence", "true"}},
                 {4, 2, "tensor-data", {"--mesh.tensor", "2", "--optim.shard", "optimizer"}},
                 {4, 2, "tensor-parameters", {"--mesh.tensor", "2", "--optim.shard", "parameters"}},
                 {2, 2, "gradients", {"--optim.shard", "gradients"}},
                 {2, 2, "shard", {"--optim.shard", "optimizer"}}};
  for (const auto& [ranks, data, name, layout] : layouts) {
    const Outcome outcome = run_on(ranks, name, flags(layout, data));
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    expect_same_losses("alone", name, 2e-5);
    EXPECT_EQ(read_text(path(name + "/predict_results_mrpc.txt")), read_text(path("alone/predict_results_mrpc.txt")));
    EXPECT_NEAR(json(name + "/eval_results.json")["eval_loss"].get<double>(),
                json("alone/eval_results.json")["eval_loss"].get<double>(), 1e-4);
    // The model that was written is the trained one.
    auto words = glue(name + "-again", {"--do_eval"});
    words[2] = path(name);
    ASSERT_EQ(run(trireme_command(words)).code, 0);
    EXPECT_NEAR(json(name + "-again/eval_results.json")["eval_loss"].get<double>(),
                json(name + "/eval_results.json")["eval_loss"].get<double>(), 1e-5);
  }
}

TEST_F(GlueRanks, WriteTheMastersOfABfloatModelWhoseRemaindersAreShared) {
  const std::vector<std::string> flags{"--do_train", "--max_steps", "5", "--bf16"};
  ASSERT_EQ(run_on(2, "whole", flags).code, 0);
  for (const std::string shard : {"optimizer", "parameters"}) {
    auto sharded = flags;
    sharded.insert(sharded.end(), {"--optim.shard", shard});
    ASSERT_EQ(run_on(2, shard, sharded).code, 0);
    EXPECT_EQ(read_text(path(shard + "/model.safetensors")), read_text(path("whole/model.safetensors")));
  }
}

TEST_F(GlueRanks, ResumeOnAnotherLayout) {
  const auto flags = [](const char* steps) {
    return std::vector<std::string>{"--do_train", "--lr_scheduler_type",
                                    "constant",   "--save_steps",
                                    "15",         "--save_strategy",
                                    "steps",      "--max_steps",
                                    steps,        "--per_device_train_batch_size",
                                    "8"};
  };
  ASSERT_EQ(run_on(1, "whole", flags("20")).code, 0);
  ASSERT_EQ(run_on(1, "parts", flags("15")).code, 0);
  auto second = flags("20");
  second.insert(second.end(), {"--mesh.tensor", "2"});
  const Outcome outcome = run_on(2, "parts", second);
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  expect_same_losses("whole", "parts", 2e-5);
}

TEST_F(GlueRanks, RefuseAnImpossibleLayout) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"--mesh.tensor", "3"}, "tensor 3 does not divide 2 heads; 1, 2 do"},
      {{"--mesh.pipeline", "3"}, "\"--mesh.pipeline\" cannot be given to glue"}};
  for (const auto& [layout, message] : cases) {
    auto flags = layout;
    flags.insert(flags.end(), {"--do_train", "--max_steps", "2"});
    const Outcome outcome = run_on(3, "refused", flags);
    EXPECT_EQ(outcome.code, 2) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(message));
  }
}

TEST_F(GlueRanks, KeepTheGlobalBatchOfTheFirstStart) {
  const std::vector<std::string> flags{"--do_train", "--lr_scheduler_type", "constant", "--save_steps", "30"};
  const auto with = [&](const char* steps) {
    auto all = flags;
    all.insert(all.end(), {"--max_steps", steps});
    return all;
  };
  ASSERT_EQ(run_on(1, "whole", with("36")).code, 0);
  ASSERT_EQ(run_on(1, "parts", with("30")).code, 0);
  const Outcome second = run_on(2, "parts", with("36"));  // 8 rows per rank would be 16
  ASSERT_EQ(second.code, 0) << second.output;
  EXPECT_THAT(second.output, HasSubstr("8 rows per step: 2 ranks"));
  const auto whole = losses("whole"), parts = losses("parts");
  ASSERT_EQ(parts.size(), whole.size());
  for (const auto& [step, loss] : whole) EXPECT_NEAR(parts.at(step), loss, 2e-5) << step;
}

}  // namespace
}  // namespace trireme
