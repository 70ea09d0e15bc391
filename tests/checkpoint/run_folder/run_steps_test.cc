#include "checkpoint/run_folder/run_steps.h"
#include "checkpoint/checkpoint_folder.h"

#include <filesystem>

#include "base/file.h"
#include "checkpoint/run_folder/run_folder.h"
#include "tests/checkpoint/small_run.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using Steps = std::vector<int64_t>;

class RunSteps : public testing::Test {
 protected:
  RunSteps() : state_(table_, DType::f32, true) {
    for (const int64_t step : {10, 20, 30}) add(step);
  }
  void add(int64_t step) {
    fill(state_, table_, ++seed_);
    save(folder_.path(), table_, state_, facts_of(spec_, step));
  }
  std::string warning_of_newest(int64_t expected) const {
    testing::internal::CaptureStderr();
    EXPECT_EQ(newest_step(folder_.path()), expected);
    return testing::internal::GetCapturedStderr();
  }

  Spec spec_ = small_spec();
  ParameterTable table_{spec_};
  TrainingState state_;
  TemporaryFolder folder_;
  uint64_t seed_ = 0;
};

TEST_F(RunSteps, TheNewestCompleteStepIsUsedIfLatestIsStaleOrMissing) {
  EXPECT_EQ(warning_of_newest(30), "");
  write_pointer(folder_.path(), "latest", 20);  // killed between the rename of step 30 and `latest`
  EXPECT_THAT(warning_of_newest(30), HasSubstr("latest names step-00000020, but step-00000030 is complete and newer"));
  EXPECT_EQ(find_resumable(folder_.path())->facts.progress.step, 30);
  EXPECT_EQ(open_checkpoint(folder_.path()).facts.progress.step, 30);
  fs::remove(folder_ / "latest");
  EXPECT_EQ(warning_of_newest(30), "");
  write_pointer(folder_.path(), "latest", 40);
  EXPECT_THAT(warning_of_newest(30),
              HasSubstr("step-00000040 is not a complete checkpoint; the newest one is step-00000030"));
}

TEST_F(RunSteps, ALatestThatNamesNoStepGivesAWarningWhateverItIs) {
  for (const std::string& text : {std::string("nonsense"), std::string(5000, 'x'), std::string(1 << 20, '\0')}) {
    write_text(folder_ / "latest", text);
    EXPECT_THAT(warning_of_newest(30), HasSubstr("ignoring it"));
    EXPECT_EQ(find_resumable(folder_.path())->facts.progress.step, 30);
  }
  fs::remove(folder_ / "latest");
  fs::create_directory(folder_ / "latest");
  EXPECT_THAT(warning_of_newest(30), HasSubstr("ignoring it"));
}

TEST_F(RunSteps, MissingStepsAreAnErrorAndDoNotStartANewRun) {
  for (const int64_t step : {10, 20, 30}) fs::remove_all(folder_ / step_name(step));
  const std::string expected = "latest names step-00000030, but " + folder_.path() + " has no complete checkpoint";
  EXPECT_ERROR(find_resumable(folder_.path()), ErrorKind::data, expected);
  EXPECT_ERROR(find_resumable(folder_.path()), ErrorKind::data, "--checkpoint.resume none");
  EXPECT_ERROR(open_checkpoint(folder_.path()), ErrorKind::data, expected);
  forget_steps(folder_.path());
  EXPECT_FALSE(find_resumable(folder_.path()).has_value());
}

TEST_F(RunSteps, WhatARunWentBackFromCountsAgainOnceItIsMadeAgain) {
  abandon_later_steps(folder_.path(), 10);
  EXPECT_EQ(steps_in_line(folder_.path()), (Steps{10}));
  EXPECT_EQ(find_resumable(folder_.path())->facts.progress.step, 10) << "killed before its first snapshot";
  add(20);  // another step 20: its manifest differs
  EXPECT_EQ(steps_in_line(folder_.path()), (Steps{10, 20}));
  EXPECT_EQ(find_resumable(folder_.path())->facts.progress.step, 20);
  EXPECT_EQ(list_steps(folder_.path()), (Steps{10, 20, 30})) << "left behind, not deleted";
  abandon_later_steps(folder_.path(), 30);  // named after all
  EXPECT_EQ(steps_in_line(folder_.path()), (Steps{10, 20, 30}));
}

TEST_F(RunSteps, CompleteLeftoverFoldersAreNotUsedSilently) {
  abandon_later_steps(folder_.path(), 5);
  EXPECT_ERROR(find_resumable(folder_.path()), ErrorKind::data,
               "name the step to resume from: --checkpoint.resume " + folder_.path() + "/step-00000030");
}

TEST_F(RunSteps, PruningSkipsLaterStepsAndDeletesOlderOnes) {
  abandon_later_steps(folder_.path(), 10);
  add(15);
  EXPECT_EQ(prune_checkpoints(folder_.path(), 1), (Steps{10}));
  EXPECT_EQ(list_steps(folder_.path()), (Steps{15, 20, 30}));
  add(25);
  EXPECT_EQ(prune_checkpoints(folder_.path(), 2), (Steps{20}));
  EXPECT_EQ(list_steps(folder_.path()), (Steps{15, 25, 30}));
}

}  // namespace
}  // namespace trireme
