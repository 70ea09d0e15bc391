// A stopped run resumes as if it had not been stopped.

#include <gmock/gmock.h>

#include "checkpoint/run_folder/run_folder.h"
#include "tests/runs/training_fixture.h"

namespace trireme {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class StopResume : public TrainingFixture {};

Outcome expect_done(const Outcome& outcome) {
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  return outcome;
}

TEST_F(StopResume, ARunThatIsStoppedAndResumedHoldsTheBitsOfOneThatWasNot) {
  for (const char* dtype : {"f32", "bf16"}) {
    const std::string never = std::string("never-") + dtype, stopped = std::string("stopped-") + dtype;
    const std::vector<std::string> flags = {"--precision.dtype", dtype, "--model.dropout", "0.1", "--run.steps", "30"};
    expect_done(run(trireme_command(train(never, flags))));
    std::vector<std::string> first = flags;
    first.back() = "11";
    first.insert(first.end(), {"--optim.decay-steps", "30"});
    expect_done(run(trireme_command(train(stopped, first))));
    const Outcome resumed = expect_done(run(trireme_command(train(stopped, flags))));
    EXPECT_THAT(resumed.output,
                HasSubstr("RESUMING from " + path(stopped) + "/step-00000011: 11 steps and 132 samples are done"));
    EXPECT_EQ(weights(never), weights(stopped)) << dtype;
  }
}

TEST_F(StopResume, EverySignalStopsWithASnapshotAndCode75) {
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) {
    const std::string name = "run-" + std::to_string(signal);
    Program program(trireme_command(train(name, {"--run.steps", "100000", "--log.every", "1"})));
    ASSERT_TRUE(program.wait_for([](const std::string& out) { return out.find("step      5/") != std::string::npos; }))
        << program.output();
    kill(program.pid(), signal);
    const Outcome outcome = program.finish();
    EXPECT_EQ(outcome.code, 75) << outcome.output;
    const RunCounters at = progress(name);
    EXPECT_GE(at.step, 5);
    EXPECT_THAT(outcome.output, HasSubstr("saving after step " + std::to_string(at.step)));
    EXPECT_THAT(read_text(path(name) + "/status.json"), HasSubstr("\"stopped\""));
  }
}

TEST_F(StopResume, ASignalToOneRankStopsAllAtTheSameStep) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  Program program(mpirun_command(3, train("run", {"--run.steps", "100000"})));
  ASSERT_TRUE(program.wait_for([](const std::string& out) { return out.find("step      5/") != std::string::npos; }))
      << program.output();
  const pid_t rank = first_rank_of(program);  // to the rank, not to mpirun
  kill(rank, SIGTERM);
  const Outcome outcome = program.finish();
  EXPECT_THAT(outcome.output, HasSubstr("saving after step " + std::to_string(progress("run").step)));
  EXPECT_THAT(read_text(path("run") + "/status.json"), HasSubstr("75"));
}

TEST_F(StopResume, AnotherModelInTheFolderIsRefusedWithWhatDiffers) {
  expect_done(run(trireme_command(train("run", {"--run.steps", "2"}))));
  const Outcome outcome = run(trireme_command(train("run", {"--model.width", "64", "--model.layers", "3"})));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.output, ContainsRegex("model.layers +2 +3 +impossible: another model"));
  EXPECT_THAT(outcome.output, ContainsRegex("model.width +32 +64 +impossible: another model"));
}

TEST_F(StopResume, AnotherGlobalBatchIsRefused) {
  expect_done(run(trireme_command(train("run", {"--run.steps", "2"}))));
  const Outcome outcome = run(trireme_command(train("run", {"--batch.global", "6"})));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.output, ContainsRegex("batch.global +12 +6 +--checkpoint.allow-other-batch"));
  const Outcome allowed =
      run(trireme_command(train("run", {"--batch.global", "6", "--run.steps", "4", "--checkpoint.allow-other-batch"})));
  expect_done(allowed);
  EXPECT_THAT(allowed.output, HasSubstr("warning: batch.global changes with this start from 12 to 6"));
  EXPECT_EQ(progress("run").samples, 2u * 12 + 2 * 6);
}

TEST_F(StopResume, NeedsOnlyTheRunFolderWhenItsFirstModelIsGone) {
  expect_done(run(trireme_command(train("first", {"--run.steps", "1"}))));
  expect_done(run(trireme_command({"export", "--model", path("first"), "--output", path("base")})));
  const auto go_on = [&](const char* run_name, const std::string& init, const char* steps) {
    return expect_done(run(trireme_command(train(run_name, {"--model.init", init, "--run.steps", steps}))));
  };
  go_on("whole", path("base"), "4");
  go_on("run", path("base"), "2");
  std::filesystem::rename(path("base"), path("moved"));
  EXPECT_THAT(go_on("run", path("base"), "3").output, HasSubstr("step-00000002: 2 steps and 24 samples are done"));
  EXPECT_THAT(
      go_on("run", path("gone"), "4").output,
      HasSubstr("model.init is " + path("gone") +
                ", which does not exist: cannot compare the model with it; the weights come from the checkpoint"));
  EXPECT_EQ(weights("run"), weights("whole"));
  const Outcome anew = run(trireme_command(train("new", {"--model.init", path("base"), "--run.steps", "1"})));
  EXPECT_EQ(anew.code, 1) << "a new run needs it";
  EXPECT_THAT(anew.output, HasSubstr("base"));
}

TEST_F(StopResume, ARunSentBackToAStepResumesThereAndNotFromLaterSteps) {
  const std::vector<std::string> flags = {"--checkpoint.every", "4", "--checkpoint.keep", "0", "--run.steps"};
  const auto until = [&](const std::string& steps, std::vector<std::string> more = {}) {
    more.insert(more.begin(), flags.begin(), flags.end());
    more.insert(more.begin() + static_cast<ptrdiff_t>(flags.size()), steps);
    more.insert(more.end(), {"--optim.decay-steps", "20"});
    return expect_done(run(trireme_command(train("run", more))));
  };
  until("12");
  const Outcome back = until("6", {"--checkpoint.resume", path("run") + "/step-00000004"});
  EXPECT_THAT(back.output,
              HasSubstr("the run returns to step 4 and sets 2 later snapshots of " + path("run") + " aside"));
  EXPECT_EQ(list_steps(path("run")), (std::vector<int64_t>{4, 6, 8, 12}));
  EXPECT_THAT(run(trireme_command({"checkpoint", "list", path("run")})).output,
              ContainsRegex("step-00000012 .*set aside\n"));
  const Outcome on = until("10");
  EXPECT_THAT(on.output, HasSubstr("RESUMING from " + path("run") + "/step-00000006: 6 steps"));
  EXPECT_EQ(progress("run").step, 10);
}

TEST_F(StopResume, OtherDataIsRefusedWithBothFilesUnlessAllowed) {
  expect_done(run(trireme_command(train("run", {"--run.steps", "2"}))));
  std::filesystem::copy(path("val.bin"), path("other.bin"));
  const std::vector<std::string> flags = {"--data.train", "other.bin", "--run.steps", "4"};
  const Outcome outcome = run(trireme_command(train("run", flags)));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.output, ContainsRegex("data file 1 +.*train.bin \\(40000 bytes, XXH3 [0-9a-f]+\\) +.*other.bin "
                                            "\\(8000 bytes, XXH3 [0-9a-f]+\\) +--checkpoint.allow-other-data"));
  // The same bytes under another name are the same data.
  std::filesystem::copy(path("train.bin"), path("moved.bin"));
  expect_done(run(trireme_command(train("run", {"--data.train", "moved.bin", "--run.steps", "3"}))));
  auto allowed = flags;
  allowed.push_back("--checkpoint.allow-other-data");
  const Outcome went_on = run(trireme_command(train("run", allowed)));
  expect_done(went_on);
  EXPECT_THAT(went_on.output, HasSubstr("warning: data file 1 changes with this start from "));
  EXPECT_EQ(progress("run").step, 4);
}

}  // namespace
}  // namespace trireme
