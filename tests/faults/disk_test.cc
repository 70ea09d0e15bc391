// Disks that are full, broken or read-only, and logs that cannot be written.

#include <pty.h>

#include <cerrno>

#include "base/host.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/run_folder/run_folder.h"
#include "tests/faults/fault_fixture.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Disk : public FaultFixture {
 protected:
  Outcome run_with(const std::vector<std::string>& environment, const std::vector<std::string>& flags = {}) {
    std::vector<std::string> all = {"--checkpoint.every", "6", "--checkpoint.keep", "0", "--run.steps", "18"};
    all.insert(all.end(), flags.begin(), flags.end());
    return run(trireme_command(train("run", all)), environment);
  }
};

TEST_F(Disk, ASnapshotThatDoesNotFitIsDroppedAndTrainingContinues) {
  const Outcome outcome = run_with(fault("write", ".saving-00000012", ENOSPC));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("warning: the snapshot of step 12 is lost, training continues"));
  EXPECT_THAT(outcome.output, HasSubstr("bytes written): No space left on device"));
  EXPECT_THAT(list_steps(path("run")), ElementsAre(6, 18));
  EXPECT_THAT(leftovers("run"), IsEmpty());
}

TEST_F(Disk, OrTrainingStopsWithTheOldSnapshotKept) {
  const Outcome outcome = run_with(fault("write", ".saving-00000012", EDQUOT), {"--checkpoint.on-error", "stop"});
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("Disk quota exceeded"));
  EXPECT_THAT(list_steps(path("run")), ElementsAre(6));
  EXPECT_THAT(leftovers("run"), IsEmpty());
  EXPECT_EQ(read_status(path("run")).state, RunState::failed);
  EXPECT_THAT(read_status(path("run")).message, HasSubstr("Disk quota exceeded"));
}

TEST_F(Disk, ASaveThatFailsInTheBackgroundIsReportedAtTheNextStepNotAtTheEnd) {
  const Outcome outcome = run_with(fault("fsync", ".saving-00000006", EIO),
                                   {"--checkpoint.on-error", "stop", "--run.steps", "1000000", "--log.every", "1000"});
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("Input/output error"));
  EXPECT_THAT(list_steps(path("run")), IsEmpty());
}

TEST_F(Disk, ASaveThatTakesLongKeepsNoStepWaiting) {
  write_text(path("hold"), "");
  Program program(trireme_command(train("run", {"--checkpoint.every", "100", "--run.steps", "150"})),
                  fault("fsync", ".saving-00000100", 0, {"FAULT_WHILE=" + path("hold"), "FAULT_SEEN=" + path("seen")}));
  ASSERT_TRUE(wait_for_file(program, path("seen")));
  ASSERT_TRUE(wait_for_text(program, "step 149/150")) << "the disk stands still, the steps do not";
  EXPECT_THAT(list_steps(path("run")), IsEmpty());
  std::filesystem::remove(path("hold"));
  const Outcome outcome = program.finish();
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(list_steps(path("run")), ElementsAre(100, 150));
}

TEST_F(Disk, ThatAcceptsNoDataGivesAWarningAndThenEndsTheRun) {
  write_text(path("hold"), "");
  const Outcome outcome =
      run_with(fault("fsync", ".saving-00000012", 0, {"FAULT_WHILE=" + path("hold"), "FAULT_SEEN=" + path("seen")}),
               {"--run.hang-timeout", "1"});
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  const std::string stalled = "the disk of " + path("run") + " has accepted no data of the snapshot of step 12 for ";
  EXPECT_EQ(count_of(outcome.output, "warning: " + stalled), 1) << outcome.output;
  EXPECT_EQ(count_of(outcome.output, "error: " + stalled), 1) << outcome.output;
  EXPECT_THAT(list_steps(path("run")), ElementsAre(6));
  // Once the disk is back the same command resumes.
  const Outcome next = run_with({});
  EXPECT_EQ(next.code, 0) << next.output;
  EXPECT_THAT(next.output, HasSubstr("RESUMING from " + path("run") + "/step-00000006"));
  EXPECT_THAT(leftovers("run"), IsEmpty());
}

TEST_F(Disk, TheLastSnapshotMustSucceedUnderEveryPolicy) {
  const Outcome outcome = run_with(fault("write", ".saving-00000018", ENOSPC), {"--checkpoint.retry", "0"});
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("No space left on device"));
  EXPECT_THAT(list_steps(path("run")), ElementsAre(6, 12));
}

TEST_F(Disk, TheLastSnapshotIsTriedAgainUntilThereIsRoom) {
  const Outcome outcome = run_with(fault("write", ".saving-00000018", ENOSPC, {"FAULT_TIMES=2"}));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("warning: cannot write the last snapshot, of step 18: cannot write "));
  EXPECT_THAT(outcome.output, HasSubstr("trying again in 1 s and until 600 s have passed (checkpoint.retry)"));
  EXPECT_THAT(outcome.output, HasSubstr("trying again in 2 s"));
  EXPECT_THAT(list_steps(path("run")), ElementsAre(6, 12, 18));
  EXPECT_EQ(run(trireme_command({"checkpoint", "verify", path("run")})).code, 0);
  EXPECT_THAT(leftovers("run"), IsEmpty());
}

TEST_F(Disk, OneRanksFullDiskMakesAllRanksTryTheLastSnapshotAgain) {
  if (!has_mpi()) GTEST_SKIP() << "mpirun is missing";
  const Outcome outcome = run(mpirun_command(2, train("run", {"--run.steps", "18"})),
                              fault("write", ".saving-00000018", ENOSPC, {"FAULT_RANK=1", "FAULT_TIMES=1"}));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(count_of(outcome.output, "trying again in 1 s"), 1) << outcome.output;
  EXPECT_EQ(run(trireme_command({"checkpoint", "verify", path("run")})).code, 0);
}

TEST_F(Disk, WeightsThatTheRunFolderDoesNotTakeAreKeptInTheFallback) {
  const std::vector<std::string> flags = {"--checkpoint.retry", "0", "--run.fallback", path("other")};
  const Outcome outcome = run_with(fault("write", "/run/.saving-00000018", ENOSPC), flags);
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("run.fallback " + path("other") + " is on the same file system"));
  EXPECT_THAT(list_steps(path("run")), ElementsAre(6, 12));
  std::string kept;
  for (const auto& item : std::filesystem::directory_iterator(path("other"))) kept = item.path();
  const std::string step = kept + "/step-00000018";
  EXPECT_THAT(outcome.output, HasSubstr("No space left on device; the snapshot of step 18 is in " + step));
  EXPECT_THAT(read_status(path("run")).message, HasSubstr(step));
  EXPECT_EQ(run(trireme_command({"checkpoint", "verify", kept})).code, 0);
  // The weights are those that the run folder would have.
  ASSERT_EQ(run(trireme_command(train("whole", {"--run.steps", "18"}))).code, 0);
  const std::string hash = open_checkpoint(path("whole")).facts.parameter_hash;
  EXPECT_EQ(open_checkpoint(kept).facts.parameter_hash, hash);
  const Outcome neither = run_with(fault("write", ".saving-00000018", ENOSPC), flags);
  EXPECT_EQ(neither.code, 1) << neither.output;
  EXPECT_THAT(neither.output, HasSubstr("and run.fallback did not take the snapshot of step 18 either: cannot write "));
}

TEST_F(Disk, ALimitOnTheSizeOfFilesIsNamedAsAFullDiskIs) {
  std::string words;
  for (const std::string& word : trireme_command(train("run", {"--checkpoint.retry", "0"}))) words += "'" + word + "' ";
  const Outcome outcome = run({"bash", "-c", "ulimit -f 100; " + words});
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("File too large: this process may write 102400 bytes per file (`ulimit -f`"));
  EXPECT_EQ(read_status(path("run")).state, RunState::failed);
  EXPECT_THAT(read_status(path("run")).message, HasSubstr("File too large"));
  const std::string prepared = "'" + trireme_path() + "' config options > '" + path("options") + "'";
  const Outcome printed = run({"bash", "-c", "ulimit -f 1; " + prepared});
  EXPECT_EQ(printed.code, 1) << printed.output;
  EXPECT_THAT(printed.output, HasSubstr("File too large"));
}

/// A resumed run, which evaluates for many minutes after step 6; the save of step 5 ends during that.
class LongEvaluation : public Disk {
 protected:
  void begin() {
    ASSERT_EQ(run(trireme_command(train("run", {"--run.steps", "4", "--optim.decay-steps", "20"}))).code, 0);
    write_text(path("hold"), "");
  }
  std::vector<std::string> words() const {
    return train("run", {"--checkpoint.every", "5", "--evaluation.every", "6", "--evaluation.batches", "1000000",
                         "--optim.decay-steps", "20"});
  }
  std::vector<std::string> slow_disk(const std::string& rank) const {
    return fault("fsync", ".saving-00000005", 0,
                 {"FAULT_WHILE=" + path("hold"), "FAULT_SEEN=" + path("seen"), "FAULT_RANK=" + rank});
  }
  void let_it_write(Program& program) {
    ASSERT_TRUE(wait_for_file(program, path("seen")));
    ASSERT_TRUE(wait_for_text(program, "step  6/20"));
    EXPECT_THAT(list_steps(path("run")), ElementsAre(4));
    std::filesystem::remove(path("hold"));
    ASSERT_TRUE(wait_for_file(program, path("run") + "/step-00000005"));
  }
};

TEST_F(LongEvaluation, DoesNotDelayASnapshotThatIsWritten) {
  begin();
  Program program(trireme_command(words()), slow_disk(""));
  let_it_write(program);
  kill(program.pid(), SIGKILL);
  EXPECT_THAT(program.finish().output, Not(HasSubstr("evaluation at step 6")));
  const Outcome next = run(trireme_command(train("run", {"--optim.decay-steps", "20"})));
  EXPECT_EQ(next.code, 0) << next.output;
  EXPECT_THAT(next.output, HasSubstr("RESUMING from " + path("run") + "/step-00000005"));
}

TEST_F(LongEvaluation, OnSeveralRanksDoesNotDelayASnapshotThatTheLastOneHasWritten) {
  if (!has_mpi()) GTEST_SKIP() << "mpirun is missing";
  begin();
  Program program(mpirun_command(2, words()), slow_disk("1"));
  let_it_write(program);
  kill(pid_of_rank(program, 0), SIGKILL);
  program.finish();
  EXPECT_THAT(list_steps(path("run")), ElementsAre(4, 5));
  EXPECT_THAT(verify_checkpoint(path("run") + "/step-00000005"), IsEmpty());
}

TEST_F(Disk, AFailedFlushMakesNoSnapshot) {
  const Outcome outcome = run_with(fault("fsync", ".saving-00000012", EIO));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("Input/output error"));
  EXPECT_THAT(list_steps(path("run")), ElementsAre(6, 18));
  EXPECT_THAT(leftovers("run"), IsEmpty());
}

TEST_F(Disk, InodesThatRunOutDropTheSnapshotToo) {
  const Outcome outcome = run_with(fault("open", ".saving-00000012", ENOSPC));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("the snapshot of step 12 is lost"));
  EXPECT_THAT(list_steps(path("run")), ElementsAre(6, 18));
}

TEST_F(Disk, OneRanksFullDiskIsEveryRanksLostSnapshot) {
  if (!has_mpi()) GTEST_SKIP() << "mpirun is missing";
  const auto environment = fault("write", ".saving-00000012", ENOSPC, {"FAULT_RANK=1"});
  const Outcome outcome =
      run(mpirun_command(2, train("run", {"--checkpoint.every", "6", "--checkpoint.keep", "0", "--run.steps", "18"})),
          environment);
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("the snapshot of step 12 is lost"));
  EXPECT_THAT(outcome.output, HasSubstr("rank 1 on " + host_name() + ": cannot write"));
  EXPECT_THAT(list_steps(path("run")), ElementsAre(6, 18));
}

TEST_F(Disk, SpaceIsCheckedBeforeTheFirstStep) {
  const Outcome outcome = run_with(fault("statvfs", "run", 1));
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("a checkpoint in "));
  EXPECT_THAT(outcome.output, HasSubstr(" MB, but the file system has 0.0 MB free"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("step  1/")));
}

TEST_F(Disk, AReadOnlyRunFolderIsAnErrorBeforeTheFirstStep) {
  const Outcome outcome = run_with(fault("open", "/run/", EROFS));
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("Read-only file system"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("step  1/")));
}

TEST_F(Disk, WritesThatTakeOnlyAPartAreWrittenOn) {
  const Outcome outcome = run_with(fault("short", "run/", 1));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(list_steps(path("run")), ElementsAre(6, 12, 18));
  EXPECT_EQ(run(trireme_command({"checkpoint", "verify", path("run")})).code, 0);
  EXPECT_EQ(losses("run").size(), 18u) << "metrics.jsonl is whole";
}

TEST_F(Disk, ARunFolderThatVanishesCostsSnapshotsAndAtTheEndTheRun) {
  Program program(trireme_command(train("run", {"--checkpoint.every", "100", "--run.steps", "1000000"})));
  ASSERT_TRUE(wait_for_file(program, path("run") + "/latest"));
  std::filesystem::rename(path("run"), path("elsewhere"));
  ASSERT_TRUE(wait_for_text(program, "error: "));
  const Outcome outcome = program.finish();
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_THAT(outcome.output,
              HasSubstr("the run folder " + path("run") + " no longer exists: it was deleted, renamed or "));
  EXPECT_THAT(outcome.output, Not(HasSubstr("took")));
  EXPECT_EQ(run(trireme_command({"checkpoint", "verify", path("elsewhere")})).code, 0) << "what was saved is whole";
}

/// In its own mount namespace, with a file system of that size mounted on the run folder.
class SmallDisk : public Disk {
 protected:
  void SetUp() override {
    if (run({"unshare", "-m", "true"}).code != 0) GTEST_SKIP() << "mounting needs rights that this user has not";
    std::filesystem::create_directory(path("run"));
  }
  Outcome run_on(const std::string& options, const std::vector<std::string>& flags) {
    std::string words;
    for (const std::string& word : trireme_command(train("run", flags))) words += "'" + word + "' ";
    return run({"unshare", "-m", "sh", "-c",
                "mount -t tmpfs -o " + options + " none " + path("run") + " && " + words + "; code=$?; ls -a " +
                    path("run") + "; exit $code"});
  }
};

TEST_F(SmallDisk, ThatIsTooSmallForOneCheckpointIsRefusedBeforeTheFirstStep) {
  const Outcome outcome = run_on("size=256k", {});
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_THAT(outcome.output,
              ::testing::ContainsRegex("a checkpoint in .* needs 0.3[0-9] MB, but the file system has 0.[0-9] MB"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("step  1/")));
}

TEST_F(SmallDisk, ThatFillsUpDropsSnapshotsWithTheNumbersAndKeepsTheOld) {
  // 150 snapshots of 0.4 MB do not fit, one does.
  const Outcome outcome = run_on("size=36m", {"--checkpoint.every", "2", "--checkpoint.keep", "0", "--run.steps", "300",
                                              "--checkpoint.retry", "1"});
  EXPECT_EQ(outcome.code, 1) << "the last snapshot must succeed\n" << outcome.output;
  EXPECT_THAT(outcome.output,
              ::testing::ContainsRegex("warning: the snapshot of step [0-9]+ is lost, training continues .*needs "
                                       "[0-9.]+ MB, but the file system has [0-9.]+ MB free"));
  EXPECT_THAT(outcome.output, HasSubstr("step 300/300"));
  EXPECT_THAT(outcome.output, HasSubstr("\nstep-00000002\n"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("\n.saving-")));
}

TEST_F(SmallDisk, ThatHoldsTheCheckpointAndLittleMoreIsEnough) {
  const Outcome outcome = run_on("size=640k", {"--log.tensorboard", "false"});
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("\nstep-00000020\n"));
}

TEST_F(SmallDisk, OnSeveralRanksTheTotalAndTheRanksPartAreReported) {
  if (!has_mpi()) GTEST_SKIP() << "mpirun is missing";
  std::string words;
  for (const std::string& word : mpirun_command(
           2, train("run", {"--checkpoint.every", "2", "--checkpoint.keep", "0", "--checkpoint.retry", "0"})))
    words += "'" + word + "' ";
  const Outcome outcome =
      run({"unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=1200k none " + path("run") + " && " + words});
  EXPECT_THAT(outcome.output,
              ::testing::ContainsRegex("rank [01]'s part of a checkpoint in .* \\(0.3[0-9] MB in total\\) "
                                       "needs 0.[12][0-9] MB, but the file system has 0.[0-2] MB free"));
}

TEST_F(SmallDisk, WithoutInodesIsRefusedBeforeTheFirstStep) {
  const Outcome outcome = run_on("size=64m,nr_inodes=8", {});
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_THAT(outcome.output,
              ::testing::ContainsRegex("needs [0-9]+ files, but the file system has [0-9]+ inodes free"));
}

TEST_F(SmallDisk, TooLittleSharedMemoryStopsNothingAndGivesAWarning) {
  if (!has_mpi()) GTEST_SKIP() << "mpirun is missing";
  std::string words;
  for (const std::string& word : mpirun_command(2, train("run"))) words += "'" + word + "' ";
  const Outcome outcome = run({"unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=64k none /dev/shm && " + words});
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(progress("run").step, 20);
  EXPECT_EQ(count_of(outcome.output, "warning: "), 1) << outcome.output;
  EXPECT_THAT(outcome.output,
              HasSubstr("/dev/shm has 0.1 MB free, 2 ranks on this host need 16.8 MB: they share memory "
                        "through files in "));
}

TEST_F(Disk, TensorBoardFilesThatCannotBeMadeGiveOneWarning) {
  const Outcome outcome = run_with(fault("open", "/tensorboard/", EACCES));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(count_of(outcome.output, "warning: "), 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("Permission denied"));
  EXPECT_EQ(progress("run").step, 18);
}

TEST_F(Disk, ALargeLogContinuesInANewFile) {
  std::filesystem::create_directory(path("run"));
  write_text(path("run") + "/metrics.jsonl", "");
  std::filesystem::resize_file(path("run") + "/metrics.jsonl", 64u << 20);
  const Outcome outcome = run_with({});
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(std::filesystem::file_size(path("run") + "/metrics.jsonl.1"), 64u << 20);
  EXPECT_LT(std::filesystem::file_size(path("run") + "/metrics.jsonl"), 100'000u);
  EXPECT_EQ(losses("run").size(), 18u);
  EXPECT_EQ(run(trireme_command({"report", path("run")})).code, 0);
}

TEST_F(Disk, AFullLogDiskGivesOneWarning) {
  const Outcome outcome = run_with(fault("write", "metrics.jsonl", ENOSPC));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(count_of(outcome.output, "warning: "), 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("No space left on device"));
  EXPECT_EQ(progress("run").step, 18);
}

TEST_F(Disk, AClosedTerminalStopsNothing) {
  std::string words;
  for (const std::string& word : trireme_command(train("run", {"--run.steps", "200"}))) words += "'" + word + "' ";
  EXPECT_EQ(run({"bash", "-c", "set -o pipefail; " + words + "2>&1 | head -n 1 >/dev/null"}).code, 0);
  EXPECT_EQ(progress("run").step, 200);
  EXPECT_EQ(run({"bash", "-c", words + "--run.steps 210 --optim.decay-steps 200 >&- 2>&-"}).code, 0);
  EXPECT_EQ(progress("run").step, 210);
}

TEST_F(Disk, ATerminalThatHangsUpStopsNothing) {
  // The program leads the session of a terminal, which is closed after the first step.
  int terminal = -1;
  auto words = trireme_command(train("run", {"--run.steps", "2000", "--log.every", "100"}));
  const pid_t pid = forkpty(&terminal, nullptr, nullptr, nullptr);
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  std::string shown(4096, '\0'), all;
  while (all.find("step    1/2000") == std::string::npos) {
    const ssize_t n = read(terminal, shown.data(), shown.size());
    if (n <= 0) break;
    all.append(shown, 0, static_cast<size_t>(n));
  }
  close(terminal);
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status << "\n" << all;
  EXPECT_EQ(progress("run").step, 2000);
}

}  // namespace
}  // namespace trireme
