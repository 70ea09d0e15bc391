// Where the results of fine-tuning on several hosts go: a folder that all ranks see, or one of rank 0 alone.

#include "tests/runs/glue_fixture.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

class GlueFolder : public GlueFixture {
 protected:
  /// Two ranks, each in its own folder, as on hosts whose --output_dir is local.
  Outcome apart(std::vector<std::string> flags) const {
    std::string words;
    flags.insert(flags.end(), {"--output_dir", "out"});
    for (const std::string& word : glue("out", flags)) words += " " + word;
    for (const char* host : {"host0", "host1"}) fs::create_directories(path(host));
    return run({mpirun_path(), "-n", "2", "sh", "-c",
                "cd " + path("host") + "${OMPI_COMM_WORLD_RANK:-$PMI_RANK} && exec " + trireme_path() + words});
  }
};

TEST_F(GlueFolder, WithoutADueCheckpointItMayBeRank0sAlone) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  const Outcome outcome = apart({"--do_train", "--do_eval", "--max_steps", "5"});
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("out is on rank 0's host only, which keeps all results: no snapshot is due"));
  for (const char* file : {"model.safetensors", "all_results.json", "metrics.jsonl"})
    EXPECT_TRUE(fs::exists(path(std::string("host0/out/") + file))) << file;
  EXPECT_FALSE(fs::exists(path("host1/out")));
  // The same as with a folder that both see.
  const Outcome shared = run_on(2, "shared", {"--do_train", "--do_eval", "--max_steps", "5"});
  ASSERT_EQ(shared.code, 0) << shared.output;
  EXPECT_EQ(losses("host0/out"), losses("shared"));
}

TEST_F(GlueFolder, ForCheckpointsItMustBeShared) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  for (const std::vector<std::string>& saves :
       {std::vector<std::string>{"--save_steps", "2"}, {"--save_strategy", "epoch"}}) {
    std::vector<std::string> flags{"--do_train", "--max_steps", "5"};
    flags.insert(flags.end(), saves.begin(), saves.end());
    const Outcome outcome = apart(flags);
    EXPECT_EQ(outcome.code, 2) << outcome.output;
    EXPECT_THAT(outcome.output, AllOf(HasSubstr("the run folder is not the same on every host"),
                                      HasSubstr("name it with --output-dir"), Not(HasSubstr("step 1/5"))));
    fs::remove_all(path("host0"));
    fs::remove_all(path("host1"));
  }
}

// What launch checks before it starts a rank.
TEST_F(GlueFolder, PreflightFindsWhatNoStartCanUse) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  const auto checked = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"launch", "--preflight-only", "--np", "2", "--"});
    return run(trireme_command(words));
  };
  const Outcome good = checked(glue("out", {"--do_train", "--do_eval"}));
  EXPECT_EQ(good.code, 0) << good.output;
  EXPECT_THAT(good.output, HasSubstr("planned for each rank"));
  const std::pair<std::vector<std::string>, const char*> faults[] = {
      {{"--do_train", "--model_name_or_path", path("no-model")}, "no-model does not exist"},
      {{"--do_train", "--data-dir", path("no-data")}, "no-data"},
      {{"--do_train", "--per_device_train_batch_size", "1000000", "--pad_to_max_length"}, "the run does not fit"},
      {{"--do_train", "--mesh.tensor", "3"}, "mesh"},
  };
  for (const auto& [flags, message] : faults) {
    SCOPED_TRACE(message);
    const Outcome outcome = checked(glue("out", flags));
    EXPECT_NE(outcome.code, 0) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(message));
    EXPECT_THAT(outcome.output, Not(HasSubstr("can take the job")));
  }
}

TEST_F(GlueFolder, TheHeadOfTheLogHasTheOptimizerAndTheOriginOfItsOptions) {
  const Outcome outcome = run_on(1, "out", {"--do_train", "--max_steps", "3", "--adam_beta2", "0.99"});
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("AdamW: betas 0.9 and 0.99, epsilon 1e-08, weight decay 0, gradients clipped"));
  EXPECT_THAT(outcome.output, HasSubstr("linear from 0.002 to 0 at step 3"));
  EXPECT_THAT(outcome.output, testing::ContainsRegex("optim.learning-rate +0.002 +flag --learning-rate"));
  EXPECT_THAT(outcome.output, testing::ContainsRegex("optim.beta2 +0.99 +flag --adam-beta2"));
  const Outcome longer =
      run_on(1, "out2", {"--do_train", "--max_steps", "4", "--save_steps", "2", "--save_strategy", "steps"});
  ASSERT_EQ(longer.code, 0) << longer.output;
  const Outcome resumed =
      run_on(1, "out2", {"--do_train", "--max_steps", "8", "--save_steps", "2", "--learning_rate", "1e-3"});
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_THAT(resumed.output,
              AllOf(HasSubstr("--learning-rate changes with this start from 0.002 to 0.001 (flag --learning-rate)"),
                    HasSubstr("--max-steps changes with this start from 4 to 8 (flag --max-steps)"),
                    HasSubstr("the decay of the learning rate ends at step 8 instead of 4, so step 5 trains with")));
}

}  // namespace
}  // namespace trireme
