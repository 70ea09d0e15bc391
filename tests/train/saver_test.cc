#include "train/saver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <limits>

#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/run_folder/run_folder.h"
#include "comm/agreement.h"
#include "tests/support/expect_error.h"
#include "tests/support/log_lines.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/local_run.h"

namespace trireme {
namespace {
namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

class SaverTest : public testing::Test {
 protected:
  std::string run_dir() const { return folder_ / "run"; }
  Config config() const { return run_config(run_dir()); }
  std::vector<int64_t> steps() const { return list_steps(run_dir()); }

  TemporaryFolder folder_;
};

/// A step that changed the weights, or one whose loss was not a number.
StepResult good() { return {.loss = 1}; }
StepResult not_finite() { return {.loss = kNotANumber, .finite = false, .skipped = true}; }

/// Makes the snapshot of `step`, whose weights all have that value, and publishes it.
std::optional<CheckpointEvent> save(LocalRun& of, int64_t step) {
  of.set_weights(static_cast<float>(step));
  of.run.progress.step = step;
  of.saver->begin(of.run.progress);
  return of.saver->publish();
}

/// save() followed by a good step.
std::optional<CheckpointEvent> save_and_go_on(LocalRun& of, int64_t step) {
  auto event = save(of, step);
  of.saver->record_step(step, good());
  return event;
}

TEST_F(SaverTest, PublishesWhatTheRunHoldsAtItsStep) {
  run_local(2, [&](RankContext& rank) {
    LocalRun of(rank, config());
    EXPECT_EQ(of.saver->published_step(), -1);
    EXPECT_EQ(of.saver->newest_folder(), "");
    EXPECT_FALSE(of.saver->pending());
    of.set_weights(3);
    of.run.progress.step = 3;
    of.run.progress.samples = 12;
    of.saver->begin(of.run.progress);
    EXPECT_TRUE(of.saver->pending());
    EXPECT_TRUE(of.saver->has(3));
    EXPECT_FALSE(of.saver->has(2));
    of.set_weights(99);  // training continues while the snapshot is written
    const auto event = of.saver->publish();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->step, 3);
    EXPECT_EQ(event->path, run_dir() + "/" + step_name(3));
    EXPECT_FALSE(event->best);
    EXPECT_EQ(of.saver->published_step(), 3);
    EXPECT_EQ(of.saver->newest_folder(), event->path);
    EXPECT_FALSE(of.saver->pending());
  });
  run_local(1, [&](RankContext& rank) {
    const LocalRun back(rank, config(), open_checkpoint(run_dir()));
    EXPECT_EQ(back.run.progress.samples, 12u);
    EXPECT_THAT(back.weights(), Each(AnyOf(3.f, 0.f))) << "0: rows that only pad";
    EXPECT_EQ(back.weights()[0], 3.f);
  });
}

TEST_F(SaverTest, TheBestSnapshotIsTheNextOneAfterItWasMarked) {
  run_local(2, [&](RankContext& rank) {
    Config wanted = config();
    wanted.checkpoint.best_link = folder_ / "best";
    wanted.checkpoint.keep = 1;
    LocalRun of(rank, wanted);
    EXPECT_FALSE(save_and_go_on(of, 1)->best);
    of.saver->mark_best();
    EXPECT_TRUE(of.saver->has_best());
    EXPECT_FALSE(of.saver->has(1)) << "the best weights need a snapshot that is called best";
    EXPECT_TRUE(save_and_go_on(of, 2)->best);
    EXPECT_FALSE(of.saver->has_best());
    of.saver->mark_best();
    of.saver->forget_best();
    EXPECT_FALSE(save_and_go_on(of, 3)->best);
  });
  EXPECT_EQ(read_pointer(run_dir(), "best"), 2);
  EXPECT_THAT(steps(), ElementsAre(2, 3)) << "the best one stays beside the newest";
  EXPECT_EQ(fs::canonical(folder_ / "best"), fs::canonical(run_dir() + "/" + step_name(2)));
}

TEST_F(SaverTest, ALinkToTheBestMovesWithItsRun) {
  const std::string here = folder_ / "here", there = folder_ / "there";
  fs::create_directory(here);
  run_local(1, [&](RankContext& rank) {
    Config wanted = config();
    wanted.run.dir = here + "/run";
    wanted.checkpoint.best_link = here + "/ckpt";
    LocalRun of(rank, wanted);
    of.saver->mark_best();
    save(of, 1);
  });
  EXPECT_EQ(fs::read_symlink(here + "/ckpt"), "run/" + step_name(1));
  fs::rename(here, there);
  EXPECT_EQ(open_checkpoint(there + "/ckpt").facts.progress.step, 1);
}

TEST_F(SaverTest, ALinkToTheBestReplacesLinksAndNothingElse) {
  const std::string link = folder_ / "model";
  std::ofstream(link) << "mine";
  const LogLines lines;
  run_local(1, [&](RankContext& rank) {
    Config wanted = config();
    wanted.checkpoint.best_link = link;
    LocalRun of(rank, wanted);
    of.saver->mark_best();
    save(of, 1);
    EXPECT_FALSE(fs::is_symlink(link));
    EXPECT_THAT(lines.text(), HasSubstr(link));
    fs::remove(link);
    fs::create_directory_symlink(folder_.path(), link);
    of.saver->mark_best();
    save(of, 2);
  });
  EXPECT_EQ(fs::canonical(link), fs::canonical(run_dir() + "/" + step_name(2)));
}

TEST_F(SaverTest, KeepsTheNewestAndDeletesOlderOnesOnlyAfterAGoodStep) {
  run_local(2, [&](RankContext& rank) {
    Config wanted = config();
    wanted.checkpoint.keep = 1;
    LocalRun of(rank, wanted);
    save_and_go_on(of, 1);
    save_and_go_on(of, 2);
    save(of, 3);
    // The weights of step 3 have exploded: no good step follows, and what came before them stays.
    of.saver->record_step(3, not_finite());
    save(of, 4);
  });
  EXPECT_THAT(steps(), testing::IsSupersetOf({2, 3, 4}));
  run_local(2, [&](RankContext& rank) {
    Config wanted = config();
    wanted.checkpoint.keep = 1;
    LocalRun of(rank, wanted, open_checkpoint(run_dir()));
    of.saver->record_step(4, good());
  });
  EXPECT_THAT(steps(), ElementsAre(4));
}

TEST_F(SaverTest, InAStreakNothingIsSavedAndTheEndOfARunIsAnError) {
  run_local(1, [&](RankContext& rank) {
    LocalRun of(rank, config());
    save_and_go_on(of, 2);
    EXPECT_FALSE(of.saver->in_streak());
    of.saver->record_step(3, not_finite());
    EXPECT_TRUE(of.saver->in_streak());
    const LogLines lines;
    of.saver->postpone(4);
    of.saver->postpone(5);  // logged once
    EXPECT_TRUE(of.saver->is_postponed());
    EXPECT_THAT(lines.text(), AllOf(HasSubstr("step 4"), Not(HasSubstr("step 5"))));
    of.run.progress.step = 5;
    of.run.progress.consecutive_skips = 2;
    EXPECT_ERROR(of.saver->finish(of.run.progress), ErrorKind::numeric,
                 "the run ends at step 5 during a streak of 2 skipped steps, so its weights were not saved; the newest "
                 "snapshot is " +
                     run_dir() + "/step-00000002");
    of.saver->record_step(5, good());
    EXPECT_FALSE(of.saver->in_streak());
    save(of, 6);
    EXPECT_FALSE(of.saver->is_postponed());
    of.saver->finish(of.run.progress);
  });
}

TEST_F(SaverTest, AnEvaluationEndsAStreakOfSpikesButNotOneThatIsNotFinite) {
  run_local(1, [&](RankContext& rank) {
    LocalRun of(rank, config());
    of.saver->record_step(1, {.loss = 9, .skipped = true});
    EXPECT_TRUE(of.saver->in_streak());
    of.saver->record_evaluation(2, true);
    EXPECT_FALSE(of.saver->in_streak());
    of.saver->record_step(2, not_finite());
    of.saver->record_evaluation(2, true);
    EXPECT_TRUE(of.saver->in_streak());
  });
}

/// A run folder that a file has taken the place of: nothing can be written there, not even by root.
void spoil(const std::string& run_dir) {
  fs::remove_all(run_dir);
  std::ofstream(run_dir) << "in the way";
}

TEST_F(SaverTest, ALostSnapshotIsAWarningWhileTrainingContinues) {
  run_local(1, [&](RankContext& rank) {
    Config wanted = config();
    wanted.checkpoint.retry = 0;
    LocalRun of(rank, wanted);
    save_and_go_on(of, 1);
    spoil(run_dir());
    const LogLines lines;
    EXPECT_FALSE(save(of, 2));
    EXPECT_THAT(lines.text(), AllOf(HasSubstr("step 2"), HasSubstr("checkpoint.on-error")));
    EXPECT_FALSE(of.saver->has(2)) << "it is due again";
    EXPECT_EQ(of.saver->published_step(), 1);
    of.saver->require_success();
    EXPECT_THROW(save(of, 3), CommonError) << "the last one must succeed";
  });
}

TEST_F(SaverTest, ALostSnapshotStopsARunThatAsksForThat) {
  run_local(1, [&](RankContext& rank) {
    Config wanted = config();
    wanted.checkpoint.on_error = OnError::stop;
    LocalRun of(rank, wanted);
    spoil(run_dir());
    EXPECT_ERROR(save(of, 1), ErrorKind::io, run_dir());
  });
}

TEST_F(SaverTest, NothingIsSavedIntoAFolderThatAnotherJobOwns) {
  std::atomic<int> checks = 1000;  // that still find the folder ours
  run_local(1, [&](RankContext& rank) {
    LocalRun of(rank, config(), {}, [&] {
      if (checks-- <= 0) fail(ErrorKind::locked, "another job has the run folder");
    });
    save_and_go_on(of, 1);
    checks = 0;
    EXPECT_ERROR(of.saver->begin(of.run.progress), ErrorKind::locked, "another job");
    of.run.progress.step = 2;
    checks = 1;  // lost while the snapshot is written; checkpoint.on-error does not apply
    of.saver->begin(of.run.progress);
    EXPECT_ERROR(of.saver->publish(), ErrorKind::locked, "another job");
  });
  EXPECT_THAT(steps(), ElementsAre(1));
}

TEST_F(SaverTest, AResumeByNameLeavesLaterStepsBehindAndOneByItselfDoesNot) {
  run_local(1, [&](RankContext& rank) {
    LocalRun of(rank, config());
    for (const int64_t step : {1, 2}) save_and_go_on(of, step);
  });
  const std::string first = run_dir() + "/" + step_name(1);
  run_local(1, [&](RankContext& rank) {
    const LocalRun back(rank, config(), open_checkpoint(run_dir()));
    EXPECT_EQ(back.saver->published_step(), 2);
    EXPECT_TRUE(back.saver->has(2)) << "the snapshot that the run resumed from is not written again";
  });
  EXPECT_EQ(open_checkpoint(run_dir()).facts.progress.step, 2);
  run_local(1, [&](RankContext& rank) {
    Config named = config();
    named.checkpoint.resume = first;
    const LocalRun back(rank, named, open_checkpoint(first));
    EXPECT_EQ(back.saver->newest_folder(), first);
  });
  EXPECT_EQ(open_checkpoint(run_dir()).facts.progress.step, 1);
}

TEST_F(SaverTest, SaysWhyThereIsNoBestSnapshot) {
  const auto said = [&](const Config& wanted, auto&& before) {
    std::string text;
    run_local(1, [&](RankContext& rank) {
      LocalRun of(rank, wanted);
      before(of);
      save_and_go_on(of, 1);
      const LogLines lines;
      of.saver->finish(of.run.progress);
      text = lines.text();
    });
    fs::remove_all(wanted.run.dir);
    return text;
  };
  EXPECT_THAT(said(config(), [](LocalRun&) {}), HasSubstr("nothing was evaluated: there is no validation data, or"));
  const auto infinite = [](LocalRun& of) { of.saver->record_evaluation(INFINITY, true); };
  EXPECT_THAT(said(config(), infinite), HasSubstr("no evaluation gave a finite loss"));
  EXPECT_THAT(said(config(), [](LocalRun& of) { of.saver->record_evaluation(1, false); }),
              HasSubstr("no validation data"));
  EXPECT_THAT(said(config(), [](LocalRun& of) { of.run.progress.best_loss = 1.25; }), HasSubstr("1.2500"));
  EXPECT_THAT(said(config(), [](LocalRun& of) { of.saver->mark_best(); }), Not(HasSubstr("no best snapshot")));
  Config without = config();
  without.checkpoint.best = false;
  EXPECT_THAT(said(without, [](LocalRun&) {}), IsEmpty());
  without.checkpoint.best_link = folder_ / "best";
  EXPECT_THAT(said(without, [](LocalRun&) {}), HasSubstr("checkpoint.best is false"));
}

TEST_F(SaverTest, ASnapshotOnLocalDisksIsTheNewestOneThatEveryHostReadsOnceItIsCopied) {
  run_local(1, [&](RankContext& rank) {
    Config wanted = config();
    wanted.checkpoint.local = folder_ / "disk";
    LocalRun of(rank, wanted);
    const auto event = save_and_go_on(of, 1);
    ASSERT_TRUE(event);
    EXPECT_EQ(event->place, CheckpointEvent::Place::local_disks);
    EXPECT_THAT(event->path, testing::StartsWith(folder_ / "disk"));
    EXPECT_TRUE(of.saver->copying());
    EXPECT_EQ(of.saver->published_step(), -1);
    std::vector<int64_t> copied;
    of.saver->finish_copies([&](const CheckpointEvent& copy) {
      EXPECT_EQ(copy.place, CheckpointEvent::Place::copied);
      copied.push_back(copy.step);
    });
    EXPECT_THAT(copied, ElementsAre(1));
    EXPECT_EQ(of.saver->published_step(), 1);
    EXPECT_FALSE(of.saver->copying());
    EXPECT_TRUE(fs::exists(event->path));
    of.saver->clear_local();
    EXPECT_FALSE(fs::exists(event->path));
  });
  EXPECT_THAT(steps(), ElementsAre(1));
}

}  // namespace
}  // namespace trireme
