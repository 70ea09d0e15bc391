#include "train/guard/peer_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "checkpoint/run_folder/run_lock.h"
#include "checkpoint/run_folder/run_status.h"
#include "comm/control/liveness.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

class RecordLoss : public ::testing::Test {
 protected:
  RecordLoss() {
    write_text(run_ + "/lock", kOurs);
    write_status(run_, {.state = RunState::running});
  }
  static Loss of(int lost) {
    return {.rank = lost, .host = "node" + std::to_string(lost), .last = {}, .reason = "no heartbeat for 10.0 s"};
  }
  /// What rank `rank` of our job does when it hears that `lost` was lost.
  RunStatus record(int rank, int lost) {
    record_loss(run_, kOurs, rank, of(lost));
    return read_status(run_);
  }

  static inline const std::string kOurs = lock_note({"node0", "boot", 17, "job", 1}),
                                  kTheirs = lock_note({"node9", "boot", 18, "job", 2});
  const TemporaryFolder folder_;
  const std::string run_ = folder_.path();
};

TEST(LikelyEnd, NamesTheKernelWhereMemoryRanOut) {
  Loss loss{.rank = 1, .host = "node1", .last = {}, .reason = "its connection closed", .ended = true};
  EXPECT_THAT(likely_end(loss, "node1", 1), HasSubstr("memory ran out: lower batch.micro or the ranks per host"));
  EXPECT_THAT(likely_end(loss, "node1", 0), HasSubstr("if nobody ended it, see `journalctl -k` on node1"));
  EXPECT_THAT(likely_end(loss, "node0", 1), HasSubstr("see `journalctl -k` on node1"))
      << "another host's kills are not known";
  loss.ended = false;
  EXPECT_EQ(likely_end(loss, "node1", 1), "") << "it is silent, and may still run";
}

TEST_F(RecordLoss, IsWrittenByRankZeroAlone) {
  EXPECT_EQ(record(2, 1).state, RunState::running) << "rank 0 is there to write it";
  EXPECT_EQ(record(0, 1).state, RunState::peer_lost);
  EXPECT_EQ(read_status(run_).rank, 1);
  EXPECT_EQ(read_status(run_).code, 76);
  EXPECT_THAT(read_status(run_).message, HasSubstr("rank 1 on node1 was lost (no heartbeat for 10.0 s)"));
}

TEST_F(RecordLoss, OfRankZeroIsWrittenByTheLowestOther) {
  EXPECT_EQ(record(1, 0).rank, 0);
  EXPECT_EQ(read_status(run_).state, RunState::peer_lost);
  write_status(run_, {.state = RunState::killed});  // by the process beside rank 0, which knows less
  EXPECT_EQ(record(2, 0).state, RunState::peer_lost) << "where rank 1 is gone, too";
}

TEST_F(RecordLoss, ARankThatIsCutOffDoesNotReplaceTheVerdictOfTheOthers) {
  record(0, 2);
  EXPECT_EQ(record(2, 0).rank, 2) << "rank 0 has named rank 2, which believes that rank 0 was lost";
}

TEST_F(RecordLoss, ALateSurvivorLeavesTheStatusOfANewOwnerOrAnEndedRun) {
  write_text(run_ + "/lock", kTheirs);
  EXPECT_EQ(record(0, 1).state, RunState::running);
  EXPECT_EQ(record(1, 0).state, RunState::running);
  for (const RunState ended : {RunState::done, RunState::stopped, RunState::failed}) {
    write_text(run_ + "/lock", kOurs);
    write_status(run_, {.state = ended});
    EXPECT_EQ(record(0, 1).state, ended);
  }
  write_text(run_ + "/lock", "");  // the job has let the folder go
  write_status(run_, {.state = RunState::running});
  EXPECT_EQ(record(0, 1).state, RunState::running);
  std::filesystem::remove(run_ + "/lock");
  EXPECT_EQ(record(0, 1).state, RunState::running);
}

TEST_F(RecordLoss, IsWrittenDuringTheStartWhenNoStatusIsThereYet) {
  std::filesystem::remove(status_path(run_));
  EXPECT_EQ(record(0, 1).state, RunState::peer_lost);
}

}  // namespace
}  // namespace trireme
