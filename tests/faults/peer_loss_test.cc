// A rank that dies or hangs is named by every other one, which exit with code 76.

#include "base/time.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/run_folder/run_folder.h"
#include "tests/faults/fault_fixture.h"

namespace trireme {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class PeerLoss : public FaultFixture {
 protected:
  void SetUp() override {
    if (!has_mpi()) GTEST_SKIP() << "mpirun is missing";
  }
  /// Three ranks in the middle of training, with a snapshot published; `leaving`: how many of them will leave.
  std::unique_ptr<Program> start(const std::string& run, const std::string& timeout, int leaving = 3) {
    auto program = std::make_unique<Program>(ranks_command(
        3, run, {"--run.steps", "1000000", "--checkpoint.every", "5", "--run.hang-timeout", timeout}, leaving));
    wait_for_file(*program, path(run) + "/latest");
    return program;
  }
  /// The others have reported that `rank` was lost, in these words, and exited with 76.
  void expect_loss(const std::string& run, const Outcome& outcome, int rank, const std::string& reason) {
    EXPECT_NE(outcome.code, 0);
    const RunStatus status = read_status(path(run));
    EXPECT_EQ(status.state, RunState::peer_lost) << outcome.output;
    EXPECT_EQ(status.code, 76);
    EXPECT_EQ(status.rank, rank);
    EXPECT_THAT(status.message, HasSubstr(reason));
    if (!mpirun_is_hydra()) {
      const std::string line = "error: rank " + std::to_string(rank) + " on ";
      EXPECT_EQ(count_of(outcome.output, line), 2) << outcome.output;
      EXPECT_EQ(count_of(outcome.output, "was lost (" + reason), 2) << outcome.output;
      for (int r = 0; r < 3; ++r) {
        if (r == rank) continue;
        EXPECT_EQ(code_of(run, r), 76) << "rank " << r << "\n" << outcome.output;
      }
    }
    const auto resumable = find_resumable(path(run));
    ASSERT_TRUE(resumable);
    EXPECT_THAT(verify_checkpoint(resumable->path), ::testing::IsEmpty());
  }
};

TEST_F(PeerLoss, AKilledRankIsNamedImmediatelyAndTheJobResumesFromItsLastSnapshot) {
  for (const int rank : {1, 0}) {
    const std::string name = "killed-" + std::to_string(rank);
    const auto program = start(name, "90");
    const auto killed = Clock::now();
    kill(pid_of_rank(*program, rank), SIGKILL);
    const Outcome outcome = program->finish();
    EXPECT_LT(seconds_since(killed), 60) << "not by a silent heartbeat";
    expect_loss(name, outcome, rank, "its connection closed");
    EXPECT_THAT(outcome.output, ContainsRegex("\\) in (step|[a-z-]+ after step) [0-9]+, (not )?waiting for "));
    if (!mpirun_is_hydra()) {
      EXPECT_THAT(outcome.output, ContainsRegex("see `journalctl -k` on |because memory ran out")) << "it may be why";
    }
  }
  const int64_t step = find_resumable(path("killed-1"))->facts.progress.step;
  const Outcome resumed =
      run(mpirun_command(3, train("killed-1", {"--run.steps", std::to_string(step + 3), "--optim.decay-steps", "20"})));
  EXPECT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_EQ(progress("killed-1").step, step + 3);
}

TEST_F(PeerLoss, ARankThatIsKilledDuringTheStartAnEvaluationOrASaveIsNamedWithThePhase) {
  struct Case {
    std::string name, call, match, phase;
    std::vector<std::string> flags;
  };
  const std::vector<Case> cases = {
      {"start", "fsync", "start/lock", "start-up after step 0", {}},
      // The last heartbeat may be older than the save, so that any phase may be reported.
      {"save", "fsync", "/rank-00000-of-", "", {"--checkpoint.every", "4"}},
  };
  for (const Case& c : cases) {
    write_text(path("hold"), "");
    std::filesystem::remove(path("seen"));
    std::vector<std::string> flags = {"--run.steps", "1000000"};
    flags.insert(flags.end(), c.flags.begin(), c.flags.end());
    Program program(
        ranks_command(3, c.name, flags),
        fault(c.call, c.match, 0, {"FAULT_WHILE=" + path("hold"), "FAULT_SEEN=" + path("seen"), "FAULT_RANK=0"}));
    ASSERT_TRUE(wait_for_file(program, path("seen")));
    kill(pid_of_rank(program, 1), SIGKILL);
    const Outcome outcome = program.finish();
    EXPECT_NE(outcome.code, 0);
    EXPECT_EQ(read_status(path(c.name)).state, RunState::peer_lost) << outcome.output;
    EXPECT_EQ(read_status(path(c.name)).rank, 1);
    if (!mpirun_is_hydra()) {
      EXPECT_THAT(outcome.output, HasSubstr(" s after its last heartbeat) in "));
      EXPECT_THAT(outcome.output, HasSubstr("in " + c.phase));
    }
    EXPECT_TRUE(list_steps(path(c.name)).empty()) << "nothing was half published";
  }
  Program program(ranks_command(3, "evaluation", {"--evaluation.every", "1", "--evaluation.batches", "1000000"}));
  ASSERT_TRUE(wait_for_file(program, path("evaluation") + "/metrics.jsonl"));
  kill(pid_of_rank(program, 2), SIGKILL);
  const Outcome outcome = program.finish();
  EXPECT_NE(outcome.code, 0);
  EXPECT_EQ(read_status(path("evaluation")).rank, 2) << outcome.output;
}

TEST_F(PeerLoss, ARankThatIsTwiceAsSlowIsNamedWithWhatItCosts) {
  // Each product of matrices takes rank 1 a millisecond longer: many times as slow as the others, even if three ranks
  // share two busy cores. Of three intervals two in a row must show it.
  const Outcome outcome =
      run(mpirun_command(3, train("run", {"--run.steps", "90", "--log.every", "30", "--batch.micro", "2"})),
          fault("slow", "1000", 0, {"FAULT_RANK=1"}));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(count_of(outcome.output, "warning: rank 1 on "), 1) << outcome.output;
  EXPECT_THAT(
      outcome.output,
      ContainsRegex(
          "is slow: [0-9.]+ ms of work per step, the others need [0-9.]+ ms; the job spends [0-9]+ % of its time"));
}

TEST_F(PeerLoss, AStoppedRankIsNamedAfterTheTimeout) {
  for (const int rank : {2, 0}) {
    const std::string name = "stopped-" + std::to_string(rank);
    const auto program = start(name, "4", 2);
    const pid_t pid = pid_of_rank(*program, rank);
    kill(pid, SIGSTOP);
    const Outcome outcome = program->finish();
    expect_loss(name, outcome, rank, "no heartbeat for ");
    EXPECT_THAT(outcome.output, ContainsRegex("waiting for the [a-z ]+ \\([0-9]+ bytes, [0-9]+ chunks? done\\) for "
                                              "[0-9.]+ s; exiting with code 76"));
  }
}

}  // namespace
}  // namespace trireme
