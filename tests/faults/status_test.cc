// RUN/status.json is correct after every ending, even if the run itself cannot write it.

#include <thread>

#include "tests/faults/fault_fixture.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::HasSubstr;

class Status : public FaultFixture {
 protected:
  std::vector<std::string> endless(const std::string& run) const {
    return train(run, {"--run.steps", "1000000", "--checkpoint.every", "100", "--log.every", "1000"});
  }
  /// The final state of the file: a process beside the run writes after the run's end.
  RunStatus settled(const std::string& run) const {
    for (int i = 0; i < 1000 && read_status(path(run)).state == RunState::running; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return read_status(path(run));
  }
};

TEST_F(Status, AKilledProcessIsReportedByItsGuard) {
  Program program(trireme_command(endless("run")));
  ASSERT_TRUE(wait_for_file(program, path("run") + "/latest"));
  kill(program.pid(), SIGKILL);
  EXPECT_EQ(program.finish().code, 137);
  const RunStatus status = settled("run");
  EXPECT_EQ(status.state, RunState::killed);
  EXPECT_EQ(status.code, 137);
  EXPECT_THAT(status.message, HasSubstr("died without a status"));
  for (int i = 0; i < 500 && fs::exists(path("run") + "/status.reserve"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(fs::exists(path("run") + "/status.reserve"));
  EXPECT_EQ(run(trireme_command(
                    train("run", {"--run.steps", "20", "--checkpoint.resume", "none", "--run.overwrite", "true"})))
                .code,
            0);
  EXPECT_EQ(read_status(path("run")).state, RunState::done);
}

TEST_F(Status, ASecondCtrlCAtMpirunLeavesNoRunningStatus) {
  if (!has_mpi()) GTEST_SKIP() << "mpirun is missing";
  Program program(mpirun_command(2, endless("run")));
  ASSERT_TRUE(wait_for_file(program, path("run") + "/latest"));
  kill(program.pid(), SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  kill(program.pid(), SIGINT);
  const Outcome outcome = program.finish();
  EXPECT_THAT(settled("run").state, AnyOf(RunState::killed, RunState::stopped, RunState::peer_lost)) << outcome.output;
}

TEST_F(Status, AKilledMpirunLeavesNoRunningJob) {
  if (!has_mpi()) GTEST_SKIP() << "mpirun is missing";
  Program program(mpirun_command(2, endless("run")));
  ASSERT_TRUE(wait_for_file(program, path("run") + "/latest"));
  const pid_t rank = pid_of_rank(program, 0);
  kill(program.pid(), SIGKILL);
  program.finish();
  for (int i = 0; i < 500 && kill(rank, 0) == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_NE(kill(rank, 0), 0) << "rank 0 goes on without its mpirun";
  EXPECT_THAT(settled("run").state, AnyOf(RunState::killed, RunState::stopped, RunState::peer_lost, RunState::failed));
}

TEST_F(Status, AFullDiskStillRecordsTheEndOfTheRun) {
  // The first write of status.json records that the run is running.
  const Outcome outcome =
      run(trireme_command(train("run")), fault("write", "status.json.tmp", ENOSPC, {"FAULT_FIRST=2"}));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(read_status(path("run")).state, RunState::done);
  EXPECT_EQ(read_status(path("run")).step, 20);
  const Outcome lost = run(trireme_command(train("lost", {"--run.steps", "18", "--checkpoint.retry", "0"})),
                           fault("write", "tmp-", ENOSPC, {"FAULT_FIRST=2"}));
  EXPECT_EQ(lost.code, 1) << lost.output;
  EXPECT_EQ(read_status(path("lost")).state, RunState::failed);
  EXPECT_THAT(read_status(path("lost")).message, HasSubstr("No space left on device"));
}

TEST_F(Status, ASecondStartThatIsRefusedLeavesWhatAFinishedRunSaid) {
  ASSERT_EQ(run(trireme_command(train("run"))).code, 0);
  const std::string before = read_text(path("run") + "/status.json");
  const auto time = fs::last_write_time(path("run") + "/status.json");
  EXPECT_EQ(run(trireme_command(train("run", {"--batch.global", "8", "--batch.micro", "3"}))).code, 2);
  EXPECT_EQ(run(trireme_command(train("run", {"--run.steps", "40", "--data.dir", path("nowhere")}))).code, 1);
  EXPECT_EQ(read_text(path("run") + "/status.json"), before);
  EXPECT_EQ(fs::last_write_time(path("run") + "/status.json"), time) << "launch tells old ones by their time";
  EXPECT_EQ(run(trireme_command(train("new", {"--batch.global", "8", "--batch.micro", "3"}))).code, 2);
  EXPECT_EQ(read_status(path("new")).state, RunState::failed) << "where nothing was told before";
  EXPECT_EQ(run(trireme_command(train("new", {"--data.dir", path("nowhere")}))).code, 1);
  EXPECT_THAT(read_status(path("new")).message, HasSubstr("nowhere/train.bin does not exist")) << "the newest reason";
}

TEST_F(Status, AnEndlessMessageIsBounded) {
  const size_t bytes = size_t{9} << 20;
  std::string message;
  message.resize(bytes, '"');
  const std::string text = status_text({.state = RunState::failed, .message = message, .control = ""});
  EXPECT_LT(text.size(), kMostStatusBytes);
}

}  // namespace
}  // namespace trireme
