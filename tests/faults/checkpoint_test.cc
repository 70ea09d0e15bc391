// Checkpoints that are damaged on disk, and the commands that look after them.

#include <fstream>

#include "checkpoint/run_folder/run_folder.h"
#include "tests/faults/fault_fixture.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class DamagedCheckpoint : public FaultFixture {
 protected:
  /// A run with the steps 4, 8 and 12.
  void SetUp() override {
    ASSERT_EQ(run(trireme_command(train("run", flags_))).code, 0);
    newest_ = path("run") + "/step-00000012";
    shard_ = newest_ + "/rank-00000-of-00001.safetensors";
  }
  Outcome command(const std::string& action, const std::string& folder) const {
    return run(trireme_command({"checkpoint", action, folder}));
  }
  /// `checkpoint verify` names the fault; a start continues from step 8 instead; one that names the step is refused.
  void expect_found(const ::testing::Matcher<std::string>& fault) {
    const Outcome verified = command("verify", path("run"));
    EXPECT_EQ(verified.code, 1);
    EXPECT_THAT(verified.output, AllOf(HasSubstr(newest_ + ": bad"), HasSubstr("step-00000008: good"), fault));
    const Outcome named = run(trireme_command(train("other", {"--checkpoint.resume", newest_})));
    EXPECT_EQ(named.code, 1) << named.output;
    EXPECT_THAT(named.output, fault);
    const Outcome went_on = run(trireme_command(train("run", flags_)));
    EXPECT_EQ(went_on.code, 0) << went_on.output;
    EXPECT_THAT(went_on.output, AllOf(HasSubstr("warning: checkpoint " + newest_ + " cannot be used: "), fault,
                                      HasSubstr("RESUMING from " + path("run") + "/step-00000008: 8 steps")));
    EXPECT_EQ(command("verify", path("run")).code, 0) << "the step was made again";
  }
  void flip(const std::string& file, uint64_t at) const {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    char byte = 0;
    stream.seekg(static_cast<std::streamoff>(at)).read(&byte, 1);
    byte = static_cast<char>(byte ^ 4);
    stream.seekp(static_cast<std::streamoff>(at)).write(&byte, 1);
  }

  std::vector<std::string> flags_ = {"--run.steps", "12", "--checkpoint.every", "4", "--checkpoint.keep", "0"};
  std::string newest_, shard_;
};

TEST_F(DamagedCheckpoint, AFlippedByteIsNamedWithFileOffsetsAndTensor) {
  flip(shard_, fs::file_size(shard_) / 2);
  expect_found(ContainsRegex("rank-00000-of-00001.safetensors: bytes [0-9]+ to [0-9]+ \\(tensor [a-z0-9.]+, rows "));
}

TEST_F(DamagedCheckpoint, SoIsOneInTheHeader) {
  flip(shard_, 20);
  expect_found(ContainsRegex("rank-00000-of-00001.safetensors: bytes 0 to [0-9]+ \\(the header\\) have checksum "));
}

TEST_F(DamagedCheckpoint, SoIsOneInTheManifest) {
  flip(newest_ + "/manifest.json", fs::file_size(newest_ + "/manifest.json") / 2);
  expect_found(HasSubstr("manifest.json"));
}

TEST_F(DamagedCheckpoint, ATruncatedShardIsNamed) {
  fs::resize_file(shard_, fs::file_size(shard_) - 1);
  expect_found(HasSubstr("is truncated"));
}

TEST_F(DamagedCheckpoint, AMissingShardIsNamed) {
  fs::remove(shard_);
  expect_found(HasSubstr("rank-00000-of-00001.safetensors is missing"));
}

TEST_F(DamagedCheckpoint, AShardTooManyIsNamed) {
  fs::copy_file(shard_, newest_ + "/rank-00001-of-00002.safetensors");
  expect_found(HasSubstr("this shard is not in the manifest"));
}

TEST_F(DamagedCheckpoint, ClocksAndTimesOfFilesDecideNothing) {
  const auto future = fs::file_time_type::clock::now() + std::chrono::hours(24 * 365);
  for (const auto& item : fs::recursive_directory_iterator(path("run") + "/step-00000004"))
    fs::last_write_time(item.path(), future);
  fs::last_write_time(path("run") + "/step-00000004", future);
  for (const auto& item : fs::recursive_directory_iterator(newest_))
    fs::last_write_time(item.path(), fs::file_time_type::clock::now() - std::chrono::hours(24 * 365));
  auto flags = flags_;
  flags[1] = "14";
  const Outcome outcome = run(trireme_command(train("run", flags)));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("RESUMING from " + newest_));
  EXPECT_EQ(progress("run").step, 14);
}

TEST_F(DamagedCheckpoint, CommandsListShowAndPrune) {
  const Outcome list = command("list", path("run"));
  EXPECT_THAT(list.output,
              AllOf(ContainsRegex("step-00000004 +48 +4 "), ContainsRegex("step-00000012 +144 +12 .*latest")));
  EXPECT_THAT(command("show", newest_).output, AllOf(ContainsRegex("step +12\n"), ContainsRegex("samples +144\n"),
                                                     HasSubstr("2 layers, 2 heads, width 32"), HasSubstr("train.bin")));
  const Outcome pruned = run(trireme_command({"checkpoint", "prune", path("run"), "--keep", "1"}));
  EXPECT_EQ(pruned.code, 0) << pruned.output;
  EXPECT_THAT(pruned.output, ContainsRegex("deleted [12] checkpoints"));
  EXPECT_THAT(list_steps(path("run")), AllOf(::testing::Contains(12), Not(::testing::Contains(4))));
  EXPECT_EQ(command("verify", path("absent")).code, 1);
}

TEST_F(DamagedCheckpoint, MissingStepsStopTheNextStart) {
  for (const char* step : {"4", "8", "12"}) fs::remove_all(path("run") + fmt::format("/step-{:0>8}", step));
  const Outcome verified = command("verify", path("run"));
  EXPECT_EQ(verified.code, 1);
  EXPECT_THAT(verified.output, HasSubstr(path("run") + "/latest: bad\n  it names step-00000012, which does not exist"));
  const Outcome refused = run(trireme_command(train("run", flags_)));
  EXPECT_EQ(refused.code, 1) << refused.output;
  EXPECT_THAT(refused.output, AllOf(HasSubstr(path("run") + "/latest names step-00000012"),
                                    HasSubstr("start a new run with --checkpoint.resume none")));
  auto anew = flags_;
  anew.insert(anew.end(), {"--checkpoint.resume", "none"});
  const Outcome started = run(trireme_command(train("run", anew)));
  EXPECT_EQ(started.code, 0) << started.output;
  EXPECT_THAT(started.output, HasSubstr("starting from scratch"));
}

TEST_F(DamagedCheckpoint, AStepWithoutItsManifestIsNamedAndNotUsed) {
  fs::remove(newest_ + "/manifest.json");
  for (const std::string& folder : {path("run"), newest_}) {
    const Outcome verified = command("verify", folder);
    EXPECT_EQ(verified.code, 1);
    EXPECT_THAT(verified.output, AllOf(HasSubstr(newest_ + ": bad"), HasSubstr("manifest.json")));
  }
  EXPECT_THAT(
      command("verify", path("run")).output,
      AllOf(HasSubstr(
                "manifest.json is missing: the copy was interrupted, or the file was deleted; the folder is not used"),
            HasSubstr("latest: bad\n  it names step-00000012"), HasSubstr("step-00000008: good")));
  const Outcome went_on = run(trireme_command(train("run", flags_)));
  EXPECT_EQ(went_on.code, 0) << went_on.output;
  EXPECT_THAT(went_on.output, HasSubstr("RESUMING from " + path("run") + "/step-00000008: 8 steps"));
}

TEST_F(DamagedCheckpoint, AStaleLatestHidesNoNewerStep) {
  write_text(path("run") + "/latest", "step-00000008\n");  // as a kill between the two leaves it
  auto flags = flags_;
  flags[1] = "13";
  const Outcome outcome = run(trireme_command(train("run", flags)));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("latest names step-00000008, but step-00000012 is complete and newer"),
                                    HasSubstr("RESUMING from " + newest_)));
}

TEST_F(DamagedCheckpoint, ACopyOfAnotherStepIsNotASnapshot) {
  fs::copy(newest_, path("run") + "/step-00000030", fs::copy_options::recursive);
  const Outcome verified = command("verify", path("run"));
  EXPECT_EQ(verified.code, 1);
  EXPECT_THAT(verified.output, HasSubstr("step-00000030/manifest.json belongs to step 12: the folder is a copy of"));
  const Outcome went_on = run(trireme_command(train("run", flags_)));
  EXPECT_EQ(went_on.code, 0) << went_on.output;
  EXPECT_THAT(went_on.output, HasSubstr("RESUMING from " + newest_));
}

TEST_F(FaultFixture, AnotherTokenizerOrVocabularyIsRefusedWithATable) {
  const std::string letters = "abcdefghijklmnopqrstuvwxyz.,;:!";
  std::string text = letters;
  for (size_t i = 0; i < 20000; ++i) text += letters[i * i % letters.size()];
  write_text(path("text.txt"), text);
  const Outcome made =
      run(trireme_command({"prepare", "--input", path("text.txt"), "--tokenizer", "char", "--output", path("data")}));
  ASSERT_EQ(made.code, 0) << made.output;
  const auto until = [&](const std::string& steps, std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--data.dir", path("data"), "--run.steps", steps, "--optim.decay-steps", "20"});
    return run(trireme_command(train("run", more)));
  };
  ASSERT_EQ(until("2").code, 0);
  // The same ids, read as other letters.
  std::string swapped = read_text(path("data") + "/tokenizer.json");
  const size_t a = swapped.find("\"a\""), b = swapped.find("\"b\"");
  ASSERT_TRUE(a != std::string::npos && b != std::string::npos);
  std::swap(swapped[a + 1], swapped[b + 1]);
  write_text(path("data") + "/tokenizer.json", swapped);
  const Outcome refused = until("4");
  EXPECT_EQ(refused.code, 2) << refused.output;
  EXPECT_THAT(refused.output, ContainsRegex("tokenizer.json +XXH3 [0-9a-f]+ +XXH3 [0-9a-f]+ +"
                                            "--checkpoint.allow-other-tokenizer"));
  const Outcome allowed = until("4", {"--checkpoint.allow-other-tokenizer"});
  EXPECT_EQ(allowed.code, 0) << allowed.output;
  EXPECT_THAT(allowed.output, HasSubstr("warning: tokenizer.json changes with this start from "));
  const Outcome vocabulary = until("6", {"--model.vocabulary", "40"});
  EXPECT_EQ(vocabulary.code, 2) << vocabulary.output;
  EXPECT_THAT(vocabulary.output, ContainsRegex("model.vocabulary +31 +40 +impossible: another model"));
  EXPECT_EQ(progress("run").step, 4);
}

TEST_F(FaultFixture, ARequeuedJobTakesItsLockBackAndTheStaleAttemptStops) {
  const std::vector<std::string> flags = {"--run.steps", "1000000", "--checkpoint.every", "20"};
  Program first(trireme_command(train("run", flags)), {"SLURM_JOB_ID=7", "SLURM_RESTART_CNT=0"});
  ASSERT_TRUE(wait_for_file(first, path("run") + "/latest"));
  // Another job is refused, the same job's next attempt is not.
  const Outcome other = run(trireme_command(train("run", {"--run.steps", "5"})), {"SLURM_JOB_ID=8"});
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.output, HasSubstr("(job 7, attempt 0), which is running"));
  Program second(trireme_command(train("run", flags)), {"SLURM_JOB_ID=7", "SLURM_RESTART_CNT=1"});
  ASSERT_TRUE(wait_for_text(second, "RESUMING from "));
  const Outcome stale = first.finish();
  EXPECT_EQ(stale.code, 1) << stale.output;
  EXPECT_THAT(stale.output,
              HasSubstr("no longer belongs to this process: another process has taken over the run folder"));
  kill(second.pid(), SIGTERM);
  EXPECT_EQ(second.finish().code, 75);
}

}  // namespace
}  // namespace trireme
