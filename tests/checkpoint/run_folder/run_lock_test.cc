#include "checkpoint/run_folder/run_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "base/file.h"
#include "checkpoint/run_folder/run_status.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

const LockOwner kHere{"node1", "boot-a", 100, "", 0};
const LockOwner kElsewhere{"node2", "boot-b", 200, "", 0};

LockOwner job(LockOwner owner, const char* name, int64_t attempt) {
  owner.job = name;
  owner.attempt = attempt;
  return owner;
}

/// Leaves the lock file as a process that was killed leaves it: free, with its note.
void leave_note(const std::string& dir, const std::string& text) { write_text(dir + "/lock", text); }
void die_with(const std::string& dir, const LockOwner& owner) {
  std::string note;
  {
    const RunLock lock(dir, owner, true);
    note = read_text(dir + "/lock");
  }
  leave_note(dir, note);
}

TEST(RunLock, TheSecondJobIsRefusedByName) {
  TemporaryFolder run;
  const RunLock first(run.path(), job(kHere, "17", 2), false);
  EXPECT_ERROR(RunLock(run.path(), kHere, false), ErrorKind::locked,
               "belongs to process 100 on node1 (job 17, attempt 2), which is running");
  EXPECT_ERROR(RunLock(run.path(), kElsewhere, false), ErrorKind::locked, "--run.take-over");
  EXPECT_NO_THROW(first.check());
}

TEST(RunLock, AnotherProcessIsRefusedToo) {
  TemporaryFolder run;
  const RunLock first(run.path(), this_owner(), false);
  const pid_t child = fork();
  if (child == 0) {
    try {
      const RunLock second(run.path(), this_owner(), false);
      _exit(0);
    } catch (const Error& e) {
      _exit(e.kind() == ErrorKind::locked ? 42 : 1);
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 42);
}

TEST(RunLock, AfterACleanEndAnyoneMayTakeIt) {
  TemporaryFolder run;
  { const RunLock first(run.path(), kHere, false); }
  EXPECT_EQ(read_text(run / "lock"), "");
  EXPECT_NO_THROW(RunLock(run.path(), kElsewhere, false));
}

TEST(RunLock, AKilledOwnersFolderIsTakenSilentlyOnTheSameMachine) {
  TemporaryFolder run;
  const pid_t child = fork();
  if (child == 0) {
    [[maybe_unused]] const auto* lock = new RunLock(run.path(), this_owner(), false);
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_NE(read_text(run / "lock"), "");
  EXPECT_NO_THROW(RunLock(run.path(), this_owner(), false));

  die_with(run.path(), kHere);
  LockOwner container = kElsewhere;
  container.boot_id = kHere.boot_id;
  EXPECT_NO_THROW(RunLock(run.path(), container, false)) << "another name, the same kernel";
  die_with(run.path(), kHere);
  LockOwner rebooted = kHere;
  rebooted.boot_id = "boot-c";
  EXPECT_NO_THROW(RunLock(run.path(), rebooted, false));
}

TEST(RunLock, AnotherHostCannotTellWhetherTheOwnerRuns) {
  TemporaryFolder run;
  die_with(run.path(), job(kHere, "17", 0));
  EXPECT_ERROR(
      RunLock(run.path(), kElsewhere, false), ErrorKind::locked,
      "process 100 on node1 (job 17, attempt 0); it cannot be determined from here whether it is still running");
  EXPECT_ERROR(RunLock(run.path(), job(kElsewhere, "18", 1), false), ErrorKind::locked, "--run.take-over");
  EXPECT_ERROR(RunLock(run.path(), job(kElsewhere, "17", 0), false), ErrorKind::locked, "--run.take-over");
  EXPECT_NO_THROW(RunLock(run.path(), kElsewhere, true));
}

TEST(RunLock, ALaterAttemptOfTheSameJobTakesOverItsLock) {
  TemporaryFolder run;
  die_with(run.path(), job(kHere, "17", 0));
  EXPECT_NO_THROW(RunLock(run.path(), job(kElsewhere, "17", 1), false));
  const RunLock first(run.path(), job(kHere, "18", 0), false);
  const RunLock second(run.path(), job(kHere, "18", 1), false);
  EXPECT_ERROR(first.check(), ErrorKind::locked, "another process has taken over the run folder");
  EXPECT_NO_THROW(second.check());
}

TEST(RunLock, ALaterAttemptThatLocksDoNotReachIsNoticed) {
  TemporaryFolder run;
  auto first = std::make_unique<RunLock>(run.path(), job(kHere, "17", 0), false);
  // As from a host whose locks are not seen here: the note is written into the same file.
  const std::string note = R"({"attempt":1,"boot_id":"boot-b","host":"node2","job":"17","pid":200})";
  std::ofstream(run / "lock") << note << '\n';
  EXPECT_ERROR(first->check(), ErrorKind::locked, "another process has taken over the run folder");
  first.reset();
  EXPECT_EQ(read_text(run / "lock"), note + "\n") << "the first one's end leaves the second's note alone";
}

TEST(RunLock, TakingOverARunningJobIsNoticedByIt) {
  TemporaryFolder run;
  auto first = std::make_unique<RunLock>(run.path(), kHere, false);
  const RunLock second(run.path(), kElsewhere, true);
  EXPECT_ERROR(first->check(), ErrorKind::locked, "no longer belongs to this process");
  first.reset();
  EXPECT_NO_THROW(second.check()) << "the first one's end leaves the second's lock alone";
  EXPECT_THAT(read_text(run / "lock"), testing::HasSubstr("node2"));
  EXPECT_ERROR(RunLock(run.path(), kHere, false), ErrorKind::locked, "process 200 on node2");
}

TEST(RunLock, AnUnreadableNoteDoesNotBlockAFreeLock) {
  TemporaryFolder run;
  leave_note(run.path(), "{\"host\":");
  testing::internal::CaptureStderr();
  EXPECT_NO_THROW(RunLock(run.path(), kHere, false));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("cannot read its owner"));
}

TEST(RunLock, JobAndAttemptComeFromTheLauncherOrSlurm) {
  setenv("SLURM_JOB_ID", "991", 1);
  setenv("SLURM_RESTART_CNT", "3", 1);
  EXPECT_EQ(this_owner().job, "991");
  EXPECT_EQ(this_owner().attempt, 3);
  setenv("SLURM_RESTART_COUNT", "4", 1);
  EXPECT_EQ(this_owner().attempt, 4) << "Slurm's own name of it";
  unsetenv("SLURM_RESTART_COUNT");
  setenv("TRIREME_JOB_ID", "abc", 1);
  setenv("TRIREME_ATTEMPT", "1", 1);
  EXPECT_EQ(this_owner().job, "abc");
  EXPECT_EQ(this_owner().attempt, 1);
  for (const char* name : {"SLURM_JOB_ID", "SLURM_RESTART_CNT", "TRIREME_JOB_ID", "TRIREME_ATTEMPT"}) unsetenv(name);
  EXPECT_EQ(this_owner().job, "");
  EXPECT_EQ(this_owner().attempt, 0);
  EXPECT_EQ(this_owner().pid, getpid());
}

TEST(RunLock, MakesTheRunFolder) {
  TemporaryFolder folder;
  { const RunLock lock(folder / "new/run", kHere, false); }
  EXPECT_TRUE(std::filesystem::exists(folder / "new/run/lock"));
  write_text(folder / "file", "x");
  EXPECT_ERROR(RunLock(folder / "file/run", kHere, false), ErrorKind::io, "cannot create run folder");
}

TEST(RunStatus, ComesBack) {
  TemporaryFolder run;
  const RunStatus status{RunState::peer_lost, 76, 1234, 3, "node7", "rank 3 was lost", "10.0.0.1:4711"};
  write_status(run.path(), status);
  EXPECT_EQ(read_status(run.path()), status);
  write_status(run.path(), {RunState::done, 0, 2000, 0, "node1"});
  EXPECT_EQ(read_status(run.path()).state, RunState::done);
  write_text(run / "status.json", "{}");
  EXPECT_ERROR(read_status(run.path()), ErrorKind::data, "\"state\" is missing");
  std::string text = status_text(status);
  write_text(run / "status.json", text.replace(text.find("peer-lost"), 9, "pear-lost"));
  EXPECT_ERROR(read_status(run.path()), ErrorKind::data, "\"pear-lost\" is not a state of a run");
}

}  // namespace
}  // namespace trireme
