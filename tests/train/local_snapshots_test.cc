// Snapshots that go to the hosts' own disks first: killed at any instant, with disks that are lost, damaged or full.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>

#include "base/log.h"
#include "base/rng.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/run_folder/run_folder.h"
#include "checkpoint/snapshot/shared_copies.h"
#include "comm/agreement.h"
#include "tests/checkpoint/small_run.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"
#include "train/local_resume.h"

namespace trireme {
namespace {
namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

/// What all ranks log, as it is shown.
class Listening {
 public:
  Listening() {
    log::set_listener([this](std::string_view line) {
      const std::lock_guard lock(mutex_);
      (text_ += line) += '\n';
    });
  }
  ~Listening() { log::set_listener({}); }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

/// A run folder, and for each rank a host with a disk of its own. On real hosts these have one path; here each rank is
/// given that of its disk.
class LocalSnapshots : public testing::Test {
 protected:
  LocalSnapshots() { fs::create_directory(run_); }

  std::string disk(int rank) const { return folder_ / ("disk-" + std::to_string(rank)); }
  std::string run_dir() const { return run_; }
  Config config_of(int rank) const {
    Config config;
    config.run.dir = run_;
    config.checkpoint.local = disk(rank);
    return config;
  }
  /// DIR/RUN-ID of a rank's host.
  std::string folder_of(int rank) const { return disk(rank) + "/run-0123456789abcdef"; }
  LocalNote note_of(int rank) const { return {.folder = folder_of(rank), .step = 1, .copied = -1}; }

  /// What one rank does to make and copy snapshots.
  struct Saver {
    Saver(const LocalSnapshots& test, RankContext& rank, int64_t keep = 0, double rate = 0)
        : folder(test.folder_of(rank.rank())),
          table(small_spec()),
          state(table, DType::f32, true),
          scalars(rank.world),
          writer(test.run_dir(), table, state, rank.world),
          copies({.run_dir = test.run_dir(), .folder = folder, .bytes_per_second = rate, .keep = keep}, scalars,
                 nullptr, {}) {}
    /// Every value of the state says the step.
    void begin(int64_t step) {
      for (const View part : state.replicated()) {
        for (float& value : part.values<float>()) value = static_cast<float>(step);
      }
      writer.begin(facts_of(table.spec(), step), folder);
    }
    void save(int64_t step, bool best = false) {
      begin(step);
      auto snapshot = writer.publish_local();
      ASSERT_TRUE(snapshot);
      snapshot->best = best;
      copies.add(std::move(*snapshot), true);
    }
    void finish() {
      copies.finish(100, true, [](const SharedCopies::Published&) {});
    }

    const std::string folder;
    const ParameterTable table;
    TrainingState state;
    Scalars scalars;
    CheckpointWriter writer;
    SharedCopies copies;
  };

  /// A start of so many ranks: what it goes on from, -1 for nothing; every value that it loads says so.
  int64_t resume(int ranks, std::vector<ResumePlace>* places = nullptr) const {
    int64_t step = -1;
    run_local(ranks, [&](RankContext& rank) {
      Scalars scalars(rank.world);
      const auto place = find_newest_complete(config_of(rank.rank()), note_of(rank.rank()), scalars);
      if (!place) return;
      CheckpointFolder folder = open_checkpoint(place->path);
      folder.nearby = place->nearby;
      const ParameterTable table(small_spec());
      TrainingState state(table, DType::f32, true);
      load_checkpoint(folder, table, state);
      for (const Parameter& p : table.all()) {
        std::vector<float> values(static_cast<size_t>(p.stored_shape.count()));
        state.read_master(p, values);
        for (const float value : values) ASSERT_EQ(value, static_cast<float>(folder.facts.progress.step));
      }
      static std::mutex mutex;
      const std::lock_guard lock(mutex);
      step = folder.facts.progress.step;
      if (places) places->push_back(*place);
    });
    return step;
  }
  std::vector<std::string> saving_folders() const {
    std::vector<std::string> found;
    for (const auto& item : fs::directory_iterator(run_)) {
      if (item.path().filename().string().starts_with(".saving-")) found.push_back(item.path());
    }
    return found;
  }
  std::vector<int64_t> steps_on(int rank) const {
    std::vector<int64_t> steps;
    for (const LocalStep& step : list_local_steps(folder_of(rank))) steps.push_back(step.step);
    return steps;
  }

  TemporaryFolder folder_;
  const std::string run_ = folder_ / "run";
};

TEST_F(LocalSnapshots, EachHostHasItsOwnShardsAndTheRunFolderGetsThemAll) {
  run_local(3, [&](RankContext& rank) {
    Saver saver(*this, rank);
    saver.save(1);
    rank.world.barrier().wait("the ranks of the test");
    const std::vector<LocalStep> here = list_local_steps(saver.folder);
    ASSERT_EQ(here.size(), 1u);
    EXPECT_THAT(here[0].shards, ElementsAre(static_cast<size_t>(rank.rank())));
    EXPECT_THAT(list_steps(run_), IsEmpty());
    EXPECT_TRUE(saver.copies.pending());
    saver.finish();
    EXPECT_FALSE(saver.copies.pending());
  });
  EXPECT_THAT(list_steps(run_), ElementsAre(1));
  EXPECT_THAT(verify_checkpoint(run_ + "/step-00000001"), IsEmpty());
  EXPECT_EQ(read_pointer(run_, "latest"), 1);
  EXPECT_EQ(read_local_note(run_), (LocalNote{folder_of(0), 1, 1}));
}

TEST_F(LocalSnapshots, ACopyIsTheSameBytesAsASaveIntoTheRunFolder) {
  TemporaryFolder other;
  run_local(2, [&](RankContext& rank) {
    Saver saver(*this, rank);
    saver.save(1);
    saver.finish();
    CheckpointWriter plain(other.path(), saver.table, saver.state, rank.world);
    plain.begin(facts_of(saver.table.spec(), 1));
    plain.publish(0);
  });
  for (const std::string name :
       {"manifest.json", "tokenizer.json", "rank-00000-of-00002.safetensors", "rank-00001-of-00002.safetensors"})
    EXPECT_EQ(read_text(run_ + "/step-00000001/" + name), read_text(other / ("step-00000001/" + name))) << name;
}

TEST_F(LocalSnapshots, OldOnesAreDeletedAfterTheRunFolderHasANewerOne) {
  run_local(2, [&](RankContext& rank) {
    Saver saver(*this, rank);
    for (int64_t step = 1; step <= 3; ++step) {
      saver.save(step);
      saver.finish();
    }
    saver.save(4);  // what the run folder has makes room for it
  });
  for (const int rank : {0, 1}) EXPECT_THAT(steps_on(rank), ElementsAre(4));
  EXPECT_THAT(list_steps(run_), ElementsAre(1, 2, 3)) << "a copy that was not published is dropped";
  EXPECT_THAT(saving_folders(), IsEmpty());
}

TEST_F(LocalSnapshots, OfThoseThatWaitOnlyWhatTheRunFolderKeepsIsCopied) {
  run_local(2, [&](RankContext& rank) {
    Saver saver(*this, rank, 1, 1);  // a byte per second
    for (int64_t step = 1; step <= 5; ++step) saver.save(step, step == 2);
    saver.finish();
  });
  EXPECT_THAT(list_steps(run_), ElementsAre(1, 2, 5)) << "the first was under way, the second is the best";
  EXPECT_EQ(read_pointer(run_, "best"), 2);
  EXPECT_EQ(read_pointer(run_, "latest"), 5);
}

TEST_F(LocalSnapshots, TheLimitHoldsAndIsLiftedAtTheEnd) {
  run_local(1, [&](RankContext& rank) {
    Saver saver(*this, rank, 0, 10'000);
    saver.save(1);
    saver.copies.finish(100, true, [](const SharedCopies::Published& copy) { EXPECT_LT(copy.seconds, 1); });
  });
  const LocalStep step = list_local_steps(folder_of(0)).at(0);
  ShardCopy copy({.from = step.path, .to = folder_ / "copied", .shards = step.shards, .bytes_per_second = 50'000},
                 step.manifest, nullptr);
  const auto start = Clock::now();
  while (!copy.wait(1)) continue;
  EXPECT_EQ(copy.failure(), "");
  EXPECT_GE(seconds_since(start), 0.9 * static_cast<double>(copy.bytes()) / 50'000);
}

TEST_F(LocalSnapshots, ANewerOneThatAllHostsTogetherHaveIsCopiedAndResumed) {
  run_local(3, [&](RankContext& rank) {
    Saver saver(*this, rank, 0, 1);
    saver.save(7);
  });
  EXPECT_THAT(list_steps(run_), IsEmpty());
  std::vector<ResumePlace> places;
  EXPECT_EQ(resume(3, &places), 7);
  EXPECT_THAT(list_steps(run_), ElementsAre(7));
  for (const ResumePlace& place : places) {
    EXPECT_EQ(place.path, run_ + "/step-00000007");
    EXPECT_THAT(place.nearby, HasSubstr("/disk-")) << "each host reads its own shards from its own disk";
  }
}

TEST_F(LocalSnapshots, OnOneHostNothingIsCopiedBeforeTheStart) {
  run_local(1, [&](RankContext& rank) {
    Saver saver(*this, rank, 0, 1);
    saver.save(7);
  });
  std::vector<ResumePlace> places;
  EXPECT_EQ(resume(1, &places), 7);
  EXPECT_THAT(list_steps(run_), IsEmpty());
  EXPECT_TRUE(places.at(0).path.starts_with(folder_of(0) + "/step-00000007-"));
}

TEST_F(LocalSnapshots, AfterALostDiskTheRunFoldersCopyIsReadAndIncompleteSnapshotsAreNotUsed) {
  run_local(3, [&](RankContext& rank) {
    Saver saver(*this, rank);
    saver.save(1);
    saver.finish();
  });
  run_local(3, [&](RankContext& rank) {
    Saver saver(*this, rank, 0, 1);
    saver.copies.add_copied(list_local_steps(saver.folder).at(0).path, 1);
    saver.begin(2);
    // Both stay, as where a job ends between a snapshot and the removal of the one before.
    saver.writer.publish_local();
  });
  for (const int rank : {0, 1, 2}) ASSERT_THAT(steps_on(rank), ElementsAre(1, 2));
  fs::remove_all(disk(1));
  const Listening log;
  std::vector<ResumePlace> places;
  EXPECT_EQ(resume(3, &places), 1);
  EXPECT_THAT(log.text(), HasSubstr("the snapshot of step 2 on the local disks ("));
  EXPECT_THAT(log.text(), HasSubstr("is incomplete and not used: 1 of its 3 shards are on none of this job's hosts"));
  std::vector<bool> nearby;
  for (const ResumePlace& place : places) nearby.push_back(!place.nearby.empty());
  EXPECT_THAT(nearby, UnorderedElementsAre(true, true, false));
  EXPECT_THAT(list_steps(run_), ElementsAre(1));
}

TEST_F(LocalSnapshots, MoreAndFewerHostsResumeFromTheSameOne) {
  run_local(2, [&](RankContext& rank) {
    Saver saver(*this, rank, 0, 1);
    saver.save(3);
  });
  EXPECT_EQ(resume(4), 3) << "two of them have no part of it";
}

TEST_F(LocalSnapshots, NothingWholeAnywhereIsAnErrorAndNoNewRun) {
  run_local(2, [&](RankContext& rank) {
    Saver saver(*this, rank, 0, 1);
    saver.save(3);
  });
  fs::remove_all(disk(0));
  EXPECT_ERROR(resume(2), ErrorKind::data,
               "but none is complete on the hosts of this start: start on the hosts that have them, or start from "
               "scratch with --checkpoint.resume none --run.overwrite");
}

TEST_F(LocalSnapshots, ADamagedLocalShardIsNamedAndTheRunFoldersIsRead) {
  run_local(2, [&](RankContext& rank) {
    Saver saver(*this, rank);
    saver.save(1);
    saver.finish();
  });
  const LocalStep step = list_local_steps(folder_of(1)).at(0);
  const std::string shard = step.path + "/" + step.manifest.shards.at(1).file;
  std::fstream file(shard, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(step.manifest.shards[1].bytes) - 2).put('\x55').put('\x55');
  file.close();
  const Listening log;
  EXPECT_EQ(resume(2), 1);
  EXPECT_THAT(log.text(), HasSubstr("the file is damaged; reading " + run_ + "/step-00000001 instead"));
}

TEST_F(LocalSnapshots, DamagedAndOnlyLocalItIsNamedAndAnOlderOneTaken) {
  run_local(2, [&](RankContext& rank) {
    Saver saver(*this, rank);
    saver.save(1);
    saver.finish();
    saver.save(2);
  });
  const LocalStep step = list_local_steps(folder_of(1)).back();
  ASSERT_EQ(step.step, 2);
  std::fstream file(step.path + "/" + step.manifest.shards.at(1).file, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(step.manifest.shards[1].bytes) - 2).put('\x55').put('\x55');
  file.close();
  const Listening log;
  EXPECT_EQ(resume(2), 1);
  EXPECT_THAT(log.text(), HasSubstr("the snapshot of step 2 on the local disks cannot be used: "));
}

TEST_F(LocalSnapshots, DamagedSnapshotsAreNeverPublished) {
  run_local(2, [&](RankContext& rank) {
    Saver saver(*this, rank);
    saver.begin(1);
    auto snapshot = saver.writer.publish_local();
    if (rank.rank() == 1) {
      std::fstream file(snapshot->folder + "/" + snapshot->manifest.shards.at(1).file,
                        std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(static_cast<std::streamoff>(snapshot->manifest.shards[1].bytes) - 2).put('\x55').put('\x55');
    }
    saver.copies.add(std::move(*snapshot), false);
    EXPECT_ERROR(saver.copies.publish(false), ErrorKind::io, "the file is damaged");
    EXPECT_TRUE(saver.copies.pending());
    EXPECT_FALSE(saver.copies.running());
    rank.world.barrier().wait("the ranks of the test");
  });
  EXPECT_THAT(list_steps(run_), IsEmpty());
  EXPECT_THAT(saving_folders(), IsEmpty());
}

TEST_F(LocalSnapshots, ADiskThatTakesNothingSendsTheSnapshotToTheRunFolder) {
  std::ofstream(disk(1)) << "no folder";
  const Listening log;
  run_local(2, [&](RankContext& rank) {
    Saver saver(*this, rank);
    saver.begin(1);
    EXPECT_FALSE(saver.writer.publish_local());
    EXPECT_TRUE(saver.writer.pending());
    EXPECT_FALSE(saver.writer.is_local());
    EXPECT_EQ(saver.writer.publish(0), run_ + "/step-00000001");
  });
  EXPECT_THAT(log.text(), HasSubstr("cannot write the snapshot of step 1 to a local disk; writing it directly to " +
                                    run_ + ": rank 1 on "));
  EXPECT_THAT(list_steps(run_), ElementsAre(1));
  EXPECT_THAT(steps_on(0), IsEmpty()) << "no part of it is left";
}

TEST_F(LocalSnapshots, TwoRunsOfOneNameDoNotMeetInOneFolder) {
  Config a, b;
  a.run.dir = folder_ / "a/run";
  b.run.dir = folder_ / "b/run";
  a.checkpoint.local = b.checkpoint.local = disk(0);
  std::string first, second, again, without;
  run_local(1, [&](RankContext& rank) {
    Scalars scalars(rank.world);
    for (const Config* config : {&a, &b}) fs::create_directories(config->run.dir);
    first = open_local_folder(a, scalars);
    second = open_local_folder(b, scalars);
    again = open_local_folder(a, scalars);
    a.checkpoint.local.clear();
    without = open_local_folder(a, scalars);
  });
  EXPECT_NE(first, second);
  EXPECT_EQ(first, again);
  EXPECT_TRUE(first.starts_with(disk(0) + "/run-")) << first;
  EXPECT_EQ(without, "");
  EXPECT_FALSE(fs::exists(first)) << "a start without the option clears what the run left";
  EXPECT_FALSE(read_local_note(a.run.dir));
  EXPECT_TRUE(fs::exists(second));
}

TEST_F(LocalSnapshots, AFailureToCreateAFolderIsAnErrorOnEveryRank) {
  std::ofstream(disk(0)) << "no folder";
  run_local(2, [&](RankContext& rank) {
    Scalars scalars(rank.world);
    EXPECT_ERROR(open_local_folder(config_of(0), scalars), ErrorKind::io, "cannot create " + disk(0) + "/run-");
  });
}

/// Two ranks, a disk each, killed at random instants of local writes, copies and publications.
class KilledLocalRun : public LocalSnapshots {
 protected:
  /// Saves and copies until it is killed; a byte on `ready` for each phase of a snapshot's way.
  [[noreturn]] void save_forever(int64_t first_step, int ready) const {
    log::set_level(log::Level::error);
    run_local(2, [&](RankContext& rank) {
      Saver saver(*this, rank, 2);
      const auto tell = [&](char phase) {
        if (rank.rank() == 0 && write(ready, &phase, 1) != 1) _exit(3);
      };
      for (int64_t step = first_step;; ++step) {
        saver.begin(step);
        tell('w');
        auto snapshot = saver.writer.publish_local();
        saver.copies.add(std::move(*snapshot), false);
        tell('c');
        // Now and then a second one comes before the first is copied.
        if (step % 3 == 0) continue;
        while (saver.copies.running()) saver.copies.publish(false);
        saver.writer.prune(2);
        tell('p');
      }
    });
    _exit(4);
  }
};

TEST_F(KilledLocalRun, ResumesFromTheNewestCompleteSnapshotAnywhere) {
  const char* asked = std::getenv("TRIREME_LOCAL_KILLS");
  const int kills = asked ? std::atoi(asked) : 200;
  RandomStream random(mix_key(54));
  int64_t last = 0;
  std::map<char, int> in_phase;
  for (int done = 0; done < kills && !HasFatalFailure(); ++done) {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) save_forever(last + 1, ready[1]);
    close(ready[1]);
    char phase = 0;
    int64_t local = last;  // steps that the child has said to be whole on local disks
    const auto until = random.below(12) + 2;
    for (uint64_t seen = 0; seen < until; ++seen) {
      ASSERT_EQ(read(ready[0], &phase, 1), 1) << "the saver died by itself";
      local += phase == 'c';
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(3'000)));  // the random instant
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the saver died by itself";
    ++in_phase[phase];
    close(ready[0]);
    log::set_level(log::Level::error);
    const int64_t found = resume(2);
    ASSERT_GE(found, local) << "a snapshot that was whole was lost";
    ASSERT_THAT(verify_checkpoint(run_ + "/" + step_name(found)), IsEmpty());
    last = found;
    // A start clears what interrupted saves and copies left.
    prepare_run_folder(run_);
    for (const int rank : {0, 1}) clear_local_folder(folder_of(rank), "");
  }
  log::set_level(log::Level::info);
  for (const auto& [phase, count] : in_phase) RecordProperty(std::string("kills_after_") + phase, count);
  EXPECT_EQ(in_phase.size(), kills < 20 ? in_phase.size() : 3u) << "kills met every phase";
}

}  // namespace
}  // namespace trireme
