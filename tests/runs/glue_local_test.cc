// Fine-tuning whose checkpoints go to local disks first (checkpoint.local).

#include <signal.h>

#include "checkpoint/run_folder/run_folder.h"
#include "checkpoint/snapshot/local_disk.h"
#include "tests/runs/glue_fixture.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

class GlueLocalDisk : public GlueFixture {
 protected:
  std::vector<std::string> flags(const std::string& steps, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"--do_train", "--save_steps", "5",   "--lr_scheduler_type",
                                    "constant",   "--max_steps",  steps, "--checkpoint.local",
                                    path("disk")};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  /// Killed while nothing has been copied; returns the step of the newest snapshot.
  int64_t kill_one(const std::string& name) const {
    Program program(trireme_command(glue(name, flags("1000000", {"--checkpoint.copy-mb-per-second", "0.0001"}))));
    const auto newest = [&] {
      const auto note = fs::exists(path(name)) ? read_local_note(path(name)) : std::nullopt;
      return note ? note->step : -1;
    };
    EXPECT_TRUE(program.wait_for([&](const std::string&) { return newest() >= 10; })) << program.output();
    kill(program.pid(), SIGKILL);
    program.finish();
    EXPECT_TRUE(list_steps(path(name)).empty());
    return newest();
  }
  /// A finished training leaves nothing on the disks.
  void expect_empty_disk() const {
    for (const auto& item : fs::recursive_directory_iterator(path("disk"))) ADD_FAILURE() << item.path();
  }
};

TEST_F(GlueLocalDisk, AKilledTrainingResumesToTheSameModel) {
  const int64_t step = kill_one("out");
  const std::string last = std::to_string(step + 7);
  const Outcome next = run_on(1, "out", flags(last));
  ASSERT_EQ(next.code, 0) << next.output;
  EXPECT_THAT(next.output, HasSubstr("RESUMING from " + path("disk") + "/out-"));
  EXPECT_THAT(next.output, HasSubstr(fmt::format(": {} steps and ", step)));
  expect_empty_disk();
  EXPECT_FALSE(fs::exists(path("out/local.json")));
  const Outcome whole = run_on(1, "whole", {"--do_train", "--lr_scheduler_type", "constant", "--max_steps", last});
  ASSERT_EQ(whole.code, 0) << whole.output;
  EXPECT_EQ(read_text(path("out/model.safetensors")), read_text(path("whole/model.safetensors")));
}

TEST_F(GlueLocalDisk, OverwritingDeletesWhatLiesThere) {
  kill_one("out");
  const Outcome next = run_on(1, "out", flags("3", {"--overwrite_output_dir"}));
  ASSERT_EQ(next.code, 0) << next.output;
  EXPECT_THAT(next.output, Not(HasSubstr("RESUMING")));
  expect_empty_disk();
  EXPECT_EQ(json("out/train_results.json")["train_samples"], 203);
}

TEST_F(GlueLocalDisk, AModelThatNoRankHasWholeIsWrittenFromTheCopy) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  const Outcome outcome = run_on(2, "out", flags("7", {"--mesh.tensor", "2"}));
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("snapshot of step 7 is on the local disks, in " + path("disk") + "/out-"));
  EXPECT_TRUE(fs::exists(path("out/model.safetensors")));
  EXPECT_EQ(list_steps(path("out")).back(), 7);
  expect_empty_disk();
}

TEST_F(GlueLocalDisk, TheOptionsAreCheckedAsTrainsAre) {
  const Outcome relative = run_on(1, "out", {"--do_train", "--checkpoint.local", "scratch"});
  EXPECT_EQ(relative.code, 2);
  EXPECT_THAT(relative.output, HasSubstr("expected the absolute path of a folder on a local disk of every host"));
  const Outcome limit = run_on(1, "out", {"--do_train", "--checkpoint.copy-mb-per-second", "10"});
  EXPECT_EQ(limit.code, 2);
  EXPECT_THAT(limit.output, HasSubstr("limits copying from local disks, but no snapshots are written to local disks"));
}

}  // namespace
}  // namespace trireme
