// Disks that are full, broken or read-only, and logs that nobody can take.

#include <cerrno>

#include "base/host.h"
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

TEST_F(Disk, ASnapshotThatDoesNotFitIsDroppedAndTrainingGoesOn) {
  const Outcome outcome = run_with(fault("write", ".saving-00000012", ENOSPC));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("warning: the snapshot of step 12 is lost, training goes on"));
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
  EXPECT_EQ(read_status(path("run")).state, "failed");
  EXPECT_THAT(read_status(path("run")).message, HasSubstr("Disk quota exceeded"));
}

TEST_F(Disk, TheLastSnapshotMustSucceedWhateverThePolicy) {
  const Outcome outcome = run_with(fault("write", ".saving-00000018", ENOSPC));
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("No space left on device"));
  EXPECT_THAT(list_steps(path("run")), ElementsAre(6, 12));
}

TEST_F(Disk, AFlushThatFailsIsNoSnapshot) {
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
  if (!has_mpi()) GTEST_SKIP() << "this build has no MPI";
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
  EXPECT_THAT(outcome.output, HasSubstr(" MB, the file system has 0.0 MB free"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("step  1/")));
}

TEST_F(Disk, AReadOnlyRunFolderIsAnErrorBeforeTheFirstStep) {
  const Outcome outcome = run_with(fault("open", "/run/", EROFS));
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("Read-only file system"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("step  1/")));
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

}  // namespace
}  // namespace trireme
