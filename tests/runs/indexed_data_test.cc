// Training on the indexed datasets of Megatron and NeoX.

#include <gmock/gmock.h>

#include <filesystem>

#include "data/indexed_dataset.h"
#include "tests/runs/training_fixture.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

class IndexedData : public TrainingFixture {
 protected:
  IndexedData() {
    write_dataset("a", "train.bin", 37);
    write_dataset("b", "val.bin", 11);
  }
  std::vector<std::string> blend(const std::string& run, std::vector<std::string> more = {}) const {
    std::vector<std::string> flags = {"--data.train",       "0.7 a 0.3 b", "--data.split", "90, 9, 1",
                                      "--evaluation.every", "30",          "--run.steps",  "60"};
    flags.insert(flags.end(), more.begin(), more.end());
    return train(run, flags);
  }
  /// The ids of a token file as documents of `length` ids.
  void write_dataset(const std::string& name, const std::string& tokens, int32_t length) const {
    const std::string ids = read_text(path(tokens));
    IndexedLayout layout;
    for (int32_t left = static_cast<int32_t>(ids.size() / 2); left > 0; left -= length) {
      layout.lengths.push_back(std::min(left, length));
      layout.documents.push_back(static_cast<int64_t>(layout.lengths.size()));
    }
    write_text(path(name + ".bin"), ids);
    write_index(path(name + ".idx"), layout);
  }
};

TEST_F(IndexedData, BlendedAndSplitTrainsAndEvaluates) {
  const Outcome outcome = run(trireme_command(blend("run", {"--evaluation.every", "30", "--run.steps", "60"})));
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("0.7 " + path("a") + ", 0.3 " + path("b")));
  const auto curve = losses("run");
  EXPECT_LT(curve.at(60), curve.at(1) - 0.3);
  // steps x batch = 720 samples, 70 % and 0.5 % more; (60 / 30 + 1) x 2 x 12 = 72 of validation
  for (const char* name : {"a_train_0_indexmap_507ns_16sl_1337s_packedpi_ac_doc_idx.npy",
                           "b_train_1_indexmap_218ns_16sl_1337s_packedpi_ac_doc_idx.npy",
                           "a_valid_0_indexmap_51ns_16sl_1337s_packedpi_ac_doc_idx.npy"})
    EXPECT_TRUE(std::filesystem::exists(path(name))) << name;
}

TEST_F(IndexedData, EvaluationsReadTheSameValidationBatchesOrTheNextOnes) {
  // A rate this low changes no loss: only the batches make a difference.
  const auto evaluations = [&](const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> flags = {"--data.train",
                                      "a",
                                      "--data.split",
                                      "60,40",
                                      "--run.steps",
                                      "9",
                                      "--evaluation.every",
                                      "3",
                                      "--optim.learning-rate",
                                      "1e-30",
                                      "--optim.min-learning-rate",
                                      "1e-30",
                                      "--checkpoint.every",
                                      "3"};
    flags.insert(flags.end(), more.begin(), more.end());
    const Outcome outcome = run(trireme_command(train(name, flags)));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    const bool said = outcome.output.find("each evaluation reads the next 2 batches of the validation data, as NeoX") !=
                      outcome.output.npos;
    EXPECT_EQ(said, !more.empty());
    std::map<int64_t, double> found;
    for (const auto& evaluation : read_run_log(path(name + "/metrics.jsonl")).evaluations)
      found[evaluation.step] = evaluation.validation_loss.value();
    return found;
  };
  const auto same = evaluations("same", {});
  ASSERT_EQ(same.size(), 4U);
  for (const auto& [step, loss] : same) EXPECT_DOUBLE_EQ(loss, same.at(0)) << step;
  const std::vector<std::string> next = {"--evaluation.next-batches", "true"};
  const auto moved = evaluations("moved", next);
  EXPECT_DOUBLE_EQ(moved.at(0), same.at(0));
  EXPECT_DOUBLE_EQ(moved.at(3), same.at(0)) << "NeoX's first one";
  EXPECT_NE(moved.at(6), moved.at(3));
  EXPECT_NE(moved.at(9), moved.at(6));
  std::filesystem::remove_all(path("moved/step-00000009"));
  write_text(path("moved/latest"), "step-00000006");
  std::filesystem::remove(path("moved/metrics.jsonl"));
  EXPECT_DOUBLE_EQ(evaluations("moved", next).at(9), moved.at(9)) << "resumed";
}

TEST_F(IndexedData, ADatasetMayBeNamedByOneOfItsFiles) {
  const auto losses_of = [&](const std::string& name) {
    const Outcome outcome = run(
        trireme_command(train("run-" + name, {"--data.train", name, "--data.split", "80,10,10", "--run.steps", "3"})));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    return losses("run-" + name);
  };
  const auto expected = losses_of("a");
  EXPECT_EQ(losses_of("a.bin"), expected);
  EXPECT_EQ(losses_of("a.idx"), expected);
}

TEST_F(IndexedData, TheThirdPartOfTheSplitIsTheTest) {
  const Outcome three = run(trireme_command(blend("three", {"--run.steps", "2"})));
  ASSERT_EQ(three.code, 0) << three.output;
  EXPECT_THAT(three.output,
              ::testing::ContainsRegex("data .* tokens\\), validation 0.7 .*, test 0.7 .*b \\([0-9]+ tokens"));
  EXPECT_THAT(three.output, ::testing::ContainsRegex("test at step 2: loss [0-9.]+, perplexity [0-9.]+ \\("));
  // evaluation.batches x batch.global = 24 samples, 70 % and 0.5 % more
  EXPECT_TRUE(std::filesystem::exists(path("a_test_0_indexmap_17ns_16sl_1337s_packedpi_ac_doc_idx.npy")));
  const RunLog log = read_run_log(path("three/metrics.jsonl"));
  ASSERT_EQ(log.tests.size(), 1);
  EXPECT_EQ(log.tests[0].step, 2);
  EXPECT_GT(log.tests[0].loss, 1);
  const Outcome again = run(trireme_command(blend("three", {"--run.steps", "2", "--evaluation.only", "true"})));
  EXPECT_THAT(again.output, HasSubstr(fmt::format("test at step 2: loss {:.4f}, ", log.tests[0].loss)));
  const Outcome two = run(trireme_command(blend("two", {"--run.steps", "2", "--data.split", "90, 10"})));
  ASSERT_EQ(two.code, 0) << two.output;
  EXPECT_THAT(two.output, ::testing::Not(HasSubstr("test at step")));
}

TEST_F(IndexedData, AnUnusedPartOfTheSplitIsReported) {
  write_dataset("c", "train.bin", 1000);  // 20 documents: 1 % of them rounds to zero
  const Outcome outcome = run(trireme_command(blend("run", {"--run.steps", "2", "--data.train", "0.7 a 0.3 c"})));
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("data.split 90, 9, 1: its third part, for the test, has 5 documents in some "
                                        "datasets and none in others; they are not used, and there is no test"));
  EXPECT_THAT(outcome.output, ::testing::Not(HasSubstr("test at step")));
  const Outcome both = run(trireme_command(blend("never", {"--data.test", "b"})));
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.output, HasSubstr("data.split takes the test documents from data.train, but data.test is set too"));
}

TEST_F(IndexedData, APartWithoutDocumentsIsDoneWithout) {
  write_dataset("few", "train.bin", 5000);  // 4 documents
  const struct {
    const char *data, *split;
    bool validation, test, told;
  } cases[] = {{"a", "100,0,0", false, false, true},
               {"a", "90,0,10", false, true, true},
               {"a", "100", false, false, true},
               {"a", "90,10,0", true, false, false},
               {"few", "969, 30, 1", false, false, true}};
  int number = 0;
  for (const auto& c : cases) {
    SCOPED_TRACE(std::string(c.data) + " " + c.split);
    const std::vector<std::string> flags = {"--data.train", c.data, "--data.split", c.split, "--run.steps", "2"};
    const Outcome outcome = run(trireme_command(train(fmt::format("run{}", number++), flags)));
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr("done at step 2"));
    EXPECT_EQ(outcome.output.find("no validation data (") == std::string::npos, c.validation) << outcome.output;
    EXPECT_EQ(outcome.output.find("test at step") != std::string::npos, c.test) << outcome.output;
    const std::string told =
        fmt::format("data.split {} leaves no documents for validation: the run trains without it", c.split);
    EXPECT_EQ(outcome.output.find(told) != std::string::npos, c.told) << outcome.output;
  }
  const Outcome declined = run(trireme_command(
      train("declined", {"--data.train", "a", "--data.split", "90,10", "--data.validation", "", "--run.steps", "2"})));
  ASSERT_EQ(declined.code, 0) << declined.output;
  EXPECT_THAT(declined.output, HasSubstr("no validation data ("));
  const Outcome blended = run(trireme_command(
      train("blended", {"--data.train", "0.5 a 0.5 few", "--data.split", "969, 30, 1", "--run.steps", "2"})));
  ASSERT_EQ(blended.code, 0) << blended.output;
  EXPECT_THAT(
      blended.output,
      HasSubstr("documents in some datasets and none in others; they are not used, and there is no validation"));
}

TEST_F(IndexedData, AnyNumberOfRanksContinuesWithTheSameSamples) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  const std::vector<std::string> flags = {
      "--data.index-dir", path("order"), "--run.steps", "400", "--evaluation.every", "0"};
  ASSERT_EQ(run(trireme_command(blend("whole", flags))).code, 0);
  std::filesystem::remove_all(path("order"));  // made again, by one of two ranks
  {
    Program program(mpirun_command(2, blend("cut", flags)));
    ASSERT_TRUE(program.wait_for([](const std::string& out) { return out.find(" 20/400") != std::string::npos; }))
        << program.output();
    kill(first_rank_of(program), SIGTERM);
    program.finish();
  }
  const int64_t stopped = progress("cut").step;
  ASSERT_LT(stopped, 400);
  const Outcome resumed = run(mpirun_command(3, blend("cut", flags)));
  EXPECT_EQ(resumed.code, 0) << resumed.output;
  const auto whole = losses("whole"), cut = losses("cut");
  for (int64_t step = 1; step <= std::min<int64_t>(stopped + 20, 400); ++step)
    EXPECT_NEAR(cut.at(step), whole.at(step), 2e-3) << step;
}

TEST_F(IndexedData, DatasetsOfAnotherTokenizerAreRefused) {
  std::string words;
  for (int i = 0; i < 500; ++i) words += "{\"text\": \"the cat sat on mat " + std::to_string(i % 10) + "\"}\n";
  write_text(path("words.jsonl"), words);
  const auto prepare = [&](const std::string& folder, const std::string& size) {
    ASSERT_EQ(run(trireme_command({"tokenizer", "train", "--input", path("words.jsonl"), "--vocab-size", size,
                                   "--output", path("tok" + size)}))
                  .code,
              0);
    std::filesystem::create_directories(path(folder));
    ASSERT_EQ(run(trireme_command({"prepare", "--format", "megatron", "--input", path("words.jsonl"), "--tokenizer",
                                   path("tok" + size), "--append-eod", "--output", path(folder + "/w")}))
                  .code,
              0);
  };
  prepare("one", "262");
  prepare("two", "264");
  const auto refused = [&](const std::vector<std::string>& flags, const std::string& text) {
    std::vector<std::string> all = {"--run.steps", "1", "--evaluation.every", "0", "--model.vocabulary", "264"};
    all.insert(all.end(), flags.begin(), flags.end());
    const Outcome outcome = run(trireme_command(train("never", all)));
    EXPECT_EQ(outcome.code, 1) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(text));
  };
  const std::string one = path("one/w_text_document"), two = path("two/w_text_document");
  refused({"--data.train", "0.5 " + one + " 0.5 " + two, "--data.split", "9, 1, 0"},
          two + ".bin was prepared with another tokenizer (hash ");
  refused({"--data.train", one, "--data.split", "9, 1, 0", "--data.tokenizer", path("tok264")},
          one + ".bin was prepared with another tokenizer (hash ");
  refused({"--data.train", one, "--data.validation", two}, two + ".bin was prepared with another tokenizer (hash ");
}

/// Two ranks, each in its own folder with a copy of the data, as hosts without a common file system have them.
TEST_F(IndexedData, HostsThatShareNoFolderEachMakeTheOrder) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  namespace fs = std::filesystem;
  const std::vector<std::string> flags = {"--data.dir", "", "--data.index-dir", "order"};
  for (const char* host : {"host0", "host1"}) {
    fs::create_directory(path(host));
    for (const char* file : {"a.bin", "a.idx", "b.bin", "b.idx"}) fs::copy(path(file), path(host) + "/" + file);
  }
  ASSERT_EQ(run(trireme_command(blend("one", {"--data.index-dir", path("order")}))).code, 0);
  std::vector<std::string> command = mpirun_command(2, blend("two", flags));
  const std::vector<std::string> in_its_folder = {
      "sh", "-c", "cd \"$0/host${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\" && exec \"$@\"", path("")};
  command.insert(command.begin() + 3, in_its_folder.begin(), in_its_folder.end());
  const Outcome outcome = run(command);
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  const std::string order = "a_train_0_indexmap_507ns_16sl_1337s_packedpi_ac_shuffle_idx.npy";
  for (const char* host : {"host0", "host1"})
    EXPECT_EQ(read_text(path(host) + "/order/" + order), read_text(path("order") + "/" + order)) << host;
  const auto one = losses("one"), two = losses("two");
  for (const auto& [step, loss] : one) EXPECT_NEAR(two.at(step), loss, 2e-3) << step;
}

TEST_F(IndexedData, WhatDoesNotFitIsRefusedBeforeTheFirstStep) {
  const auto refused = [&](const std::vector<std::string>& flags) {
    return run(trireme_command(train("run", flags))).output;
  };
  EXPECT_THAT(refused({"--data.train", "0.5 a 0.5 c"}),
              HasSubstr("the indexed dataset " + path("c") + ".idx does not exist"));
  EXPECT_THAT(refused({"--data.train", "1 c"}), HasSubstr("the indexed dataset " + path("c") + ".idx does not exist"));
  EXPECT_THAT(refused({"--data.train", "a b c"}), HasSubstr("alternating weights and prefixes"));
  EXPECT_THAT(refused({"--data.split", "9,1"}), HasSubstr("data.train \"train.bin\" is a token file"));
  EXPECT_THAT(refused({"--data.train", "a", "--data.split", "9,1", "--data.validation", "b"}),
              HasSubstr("data.validation is set too; remove one of them"));
  EXPECT_THAT(refused({"--data.train", "a", "--model.vocabulary", "20"}), HasSubstr("but the vocabulary has 20 ids"));
}

}  // namespace
}  // namespace trireme
