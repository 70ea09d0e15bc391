// Saves that are killed, run out of space or lose their folder.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "base/log.h"
#include "base/rng.h"
#include "base/time.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/run_folder/run_folder.h"
#include "model/presets.h"
#include "tests/checkpoint/small_run.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {
namespace fs = std::filesystem;

/// Folders of saves that are under way, or were left.
std::vector<fs::path> saving_folders(const std::string& run_dir) {
  std::vector<fs::path> found;
  for (const auto& item : fs::directory_iterator(run_dir)) {
    if (item.path().filename().string().starts_with(".saving-")) found.push_back(item.path());
  }
  return found;
}

/// Saves steps 1, 2, ... until killed; every value of the state is its step. A byte on `ready` after the first one.
[[noreturn]] void save_forever(const std::string& run_dir, int64_t first_step, int ready) {
  omp_set_num_threads(1);  // threads that wait for each other would take the other savers' time
  const Spec spec = small_spec();
  const ParameterTable table(spec);
  TrainingState state(table, DType::f32, true);
  const auto group = make_single();
  CheckpointWriter writer(run_dir, table, state, *group);
  for (int64_t step = first_step;; ++step) {
    for (const View part : state.replicated()) {
      for (float& value : part.values<float>()) value = static_cast<float>(step);
    }
    writer.begin(facts_of(spec, step), {}, step % 5 == 0);
    writer.publish(2);
    if (step == first_step && write(ready, "x", 1) != 1) _exit(3);
  }
}

/// Runs whose savers are killed again and again.
class KilledRun {
 public:
  /// A saver that continues from the run's checkpoint; returns when it has published its first.
  void start() {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    child_ = fork();
    if (child_ == 0) save_forever(folder_.path(), last_ + 1, ready[1]);
    close(ready[1]);
    char byte;
    ASSERT_EQ(read(ready[0], &byte, 1), 1) << "the saver died by itself";
    close(ready[0]);
  }
  void kill_saver() const {
    kill(child_, SIGKILL);
    int status = 0;
    waitpid(child_, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the saver died by itself";
  }
  /// The newest checkpoint is complete, and newer than the one that the killed saver went on from.
  void check() {
    const auto found = find_resumable(folder_.path());
    ASSERT_TRUE(found.has_value());
    const int64_t step = found->facts.progress.step;
    ASSERT_GT(step, last_) << "a published checkpoint was lost";
    const ParameterTable table(small_spec());
    TrainingState state(table, DType::f32, true);
    load_checkpoint(*found, table, state);
    for (const Parameter& p : table.all()) {
      std::vector<float> values(static_cast<size_t>(p.stored_shape.count()));
      state.read_master(p, values);
      for (float value : values) ASSERT_EQ(value, static_cast<float>(step));
    }
    last_ = step;
  }

 private:
  TemporaryFolder folder_;
  int64_t last_ = 0;
  pid_t child_ = -1;
};

TEST(InterruptedSave, AKilledSaverAlwaysLeavesACompleteCheckpoint) {
  const char* asked = std::getenv("TRIREME_KILLS");  // the target "nightly" asks for 10,000
  const int kills = asked ? std::atoi(asked) : 1000;
  log::set_level(log::Level::warning);
  std::array<KilledRun, 4> runs;  // side by side: a saver mostly waits for the disk
  RandomStream random(mix_key(2024));
  for (int done = 0; done < kills && !HasFatalFailure(); done += static_cast<int>(runs.size())) {
    for (KilledRun& run : runs) run.start();
    for (KilledRun& run : runs) {
      std::this_thread::sleep_for(std::chrono::microseconds(random.below(3'000)));  // the random instant
      run.kill_saver();
    }
    for (KilledRun& run : runs) run.check();
  }
  log::set_level(log::Level::info);
}

TEST(InterruptedSave, ADiskThatFillsUpKeepsTheOldCheckpoint) {
  TemporaryFolder run;
  const Spec spec = small_spec();
  const ParameterTable table(spec);
  TrainingState state(table, DType::f32, true);
  fill(state, table, 1);
  save(run.path(), table, state, facts_of(spec, 1));
  // A limit on the size of files simulates a full disk: write() fails half-way.
  struct rlimit before {};
  getrlimit(RLIMIT_FSIZE, &before);
  struct rlimit small = before;
  small.rlim_cur = 10'000;
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  run_local(2, [&](RankContext& rank) {
    CheckpointWriter writer(run.path(), table, state, rank.world);
    writer.begin(facts_of(spec, 2), {}, true);
    EXPECT_ERROR(writer.publish(2), ErrorKind::io,
                 "File too large: this process may write 10000 bytes per file (`ulimit -f`");
    EXPECT_FALSE(writer.pending());
  });
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  EXPECT_EQ(list_steps(run.path()), (std::vector<int64_t>{1}));
  EXPECT_TRUE(saving_folders(run.path()).empty()) << "the partial folder is removed";
  EXPECT_FALSE(fs::exists(run / "best"));
  save(run.path(), table, state, facts_of(spec, 3));
  EXPECT_EQ(find_resumable(run.path())->facts.progress.step, 3);
}

TEST(InterruptedSave, OneFailingRankFailsAllRanks) {
  TemporaryFolder run;
  const Spec spec = small_spec();
  const ParameterTable table(spec);
  TrainingState state(table, DType::f32, true);
  TemporaryFolder elsewhere;
  const std::string link = elsewhere / "run";  // rank 1's way to the folder, which is not there at first
  run_local(3, [&](RankContext& rank) {
    CheckpointWriter writer(rank.rank() == 1 ? link : run.path(), table, state, rank.world);
    writer.begin(facts_of(spec, 1));
    EXPECT_ERROR(writer.publish(0), ErrorKind::io, "cannot determine the free space of " + link);
    rank.world.barrier().wait("the ranks of the test");
    EXPECT_TRUE(saving_folders(run.path()).empty());
    rank.world.barrier().wait("the ranks of the test");
    if (rank.rank() == 1) fs::create_directory_symlink(run.path(), link);
    writer.begin(facts_of(spec, 2));
    EXPECT_EQ(fs::path(*writer.publish(0)).filename(), "step-00000002");
  });
}

TEST(InterruptedSave, AJobThatLostItsFolderNeitherPublishesNorWritesIntoTheNewOwnersStep) {
  TemporaryFolder run;
  const Spec spec = small_spec();
  const ParameterTable table(spec);
  TrainingState state(table, DType::f32, true);
  fill(state, table, 1);
  std::unique_ptr<CheckpointWriter> newer;
  run_local(2, [&](RankContext& rank) {
    bool lost = false;
    CheckpointWriter old(run.path(), table, state, rank.world, nullptr,
                         [&lost] { require(!lost, ErrorKind::locked, "another one took the run folder over"); });
    old.begin(facts_of(spec, 1));
    EXPECT_EQ(old.publish(0), run / "step-00000001");
    // A job of one rank takes the folder over and saves; the old one, which does not know yet, saves the same step.
    const auto alone = make_single();
    if (rank.rank() == 0) {
      newer = std::make_unique<CheckpointWriter>(run.path(), table, state, *alone);
      newer->begin(facts_of(spec, 2));
      lost = true;
    }
    rank.world.barrier().wait("the ranks of the test");
    old.begin(facts_of(spec, 2));
    if (rank.rank() == 0) {
      EXPECT_EQ(newer->publish(0), run / "step-00000002");
      newer.reset();
    }
    EXPECT_ERROR(old.publish(0), ErrorKind::locked, "another one took the run folder over");
  });
  std::vector<std::string> files;
  for (const auto& item : fs::directory_iterator(run / "step-00000002")) files.push_back(item.path().filename());
  EXPECT_THAT(files, testing::UnorderedElementsAre("manifest.json", "tokenizer.json", shard_name(0, 1)));
  EXPECT_THAT(verify_checkpoint(run / "step-00000002"), testing::IsEmpty());
  EXPECT_EQ(read_pointer(run.path(), "latest"), 2);
  EXPECT_TRUE(saving_folders(run.path()).empty());
}

TEST(InterruptedSave, ShardsThatRankZeroCannotSeeAreNamed) {
  TemporaryFolder run;
  const Spec spec = small_spec();
  const ParameterTable table(spec);
  TrainingState state(table, DType::f32, true);
  const TemporaryFolder elsewhere;  // which is what rank 1 sees under the same name
  run_local(2, [&](RankContext& rank) {
    CheckpointWriter writer(rank.rank() == 1 ? elsewhere.path() : run.path(), table, state, rank.world);
    writer.begin(facts_of(spec, 1));
    EXPECT_ERROR(writer.publish(0), ErrorKind::io, "must be on a file system that all hosts share");
  });
}

TEST(InterruptedSave, ASaveIsPublishedOnceAllRanksHaveWrittenWhateverTheirMainThreadsDo) {
  TemporaryFolder run;
  const Spec spec = small_spec();
  const ParameterTable table(spec);
  TrainingState state(table, DType::f32, true);
  fill(state, table, 1);
  run_local(3, [&](RankContext& rank) {
    CheckpointWriter writer(run.path(), table, state, rank.world);
    const auto seen = [&] { return read_pointer(run.path(), "best") == 1; };
    if (rank.rank() == 2) {  // it comes late: until then nothing may appear
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      EXPECT_TRUE(list_steps(run.path()).empty());
    }
    const auto begun = Clock::now();
    writer.begin(facts_of(spec, 1), {}, true);
    for (const auto start = Clock::now(); !seen() && seconds_since(start) < 60;) std::this_thread::yield();
    EXPECT_TRUE(seen()) << "without a call of publish()";
    EXPECT_EQ(read_pointer(run.path(), "latest"), 1);
    EXPECT_THAT(verify_checkpoint(run / "step-00000001"), testing::IsEmpty());
    // As long as an evaluation may take; the time of the save is that of the writing.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_EQ(writer.publish(0), run / "step-00000001");
    EXPECT_LT(writer.seconds(), seconds_since(begun) - 0.1);
  });
}

TEST(InterruptedSave, AFailedSaveIsTriedAgainWithTheSameBytesHereOrInAnotherFolder) {
  TemporaryFolder folder;
  const std::string run = folder / "run", other = folder / "other";
  const Spec spec = small_spec();
  const ParameterTable table(spec);
  TrainingState state(table, DType::f32, true), saved(table, DType::f32, true), loaded(table, DType::f32, true);
  fill(state, table, 1);
  fill(saved, table, 1);
  run_local(2, [&](RankContext& rank) {
    CheckpointWriter writer(run, table, state, rank.world);
    const auto meet = [&] { rank.world.barrier().wait("the ranks of the test"); };
    if (rank.rank() == 0) fs::remove_all(run);
    meet();
    writer.begin(facts_of(spec, 1));
    EXPECT_ERROR(writer.publish(0), ErrorKind::io, "No such file or directory");
    if (rank.rank() == 0) fill(state, table, 2);  // training goes on
    meet();
    writer.retry(run);
    EXPECT_ERROR(writer.publish(0), ErrorKind::io, "No such file or directory");
    writer.retry(other);
    EXPECT_EQ(writer.publish(0), other + "/step-00000001");
  });
  load_checkpoint(open_checkpoint(other), table, loaded);
  EXPECT_TRUE(same_state(saved, loaded));
  EXPECT_FALSE(fs::exists(run));
}

TEST(InterruptedSave, AVanishedRunFolderIsAnErrorOfTheSave) {
  TemporaryFolder folder;
  const std::string run = folder / "run";
  const Spec spec = small_spec();
  const ParameterTable table(spec);
  TrainingState state(table, DType::f32, true);
  const auto group = make_single();
  CheckpointWriter writer(run, table, state, *group);
  fs::remove_all(run);
  writer.begin(facts_of(spec, 1));
  EXPECT_ERROR(writer.publish(0), ErrorKind::io, "No such file or directory");
}

TEST(InterruptedSave, AFailureToCreateAFolderIsAnErrorOnEveryRank) {
  TemporaryFolder folder;
  std::ofstream(folder / "file") << "x";
  const Spec spec = small_spec();
  const ParameterTable table(spec);
  TrainingState state(table, DType::f32, true);
  run_local(2, [&](RankContext& rank) {
    EXPECT_ERROR(CheckpointWriter(folder / "file", table, state, rank.world), ErrorKind::io, "file");
  });
}

}  // namespace
}  // namespace trireme
