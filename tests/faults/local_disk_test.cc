// Snapshots that go to local disks first (checkpoint.local): complete runs of the program that are killed, stopped, or
// find a disk full.

#include <fstream>

#include "base/rng.h"
#include "checkpoint/run_folder/run_folder.h"
#include "checkpoint/snapshot/local_disk.h"
#include "tests/faults/fault_fixture.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class LocalDisk : public FaultFixture {
 protected:
  std::vector<std::string> flags(std::vector<std::string> more = {}) const {
    std::vector<std::string> all = {"--checkpoint.local", path("disk"), "--checkpoint.every", "6",
                                    "--checkpoint.keep",  "0",          "--run.steps",        "18"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  /// So slow that nothing is copied during training.
  std::vector<std::string> slow(std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"--checkpoint.copy-mb-per-second", "0.0001"});
    return flags(std::move(more));
  }
  std::vector<std::string> command(int ranks, const std::vector<std::string>& words) const {
    return ranks == 1 ? trireme_command(words) : mpirun_command(ranks, words);
  }
  /// A run of a million steps, killed when a snapshot of at least this step is complete on the local disk.
  void kill_after(int64_t step, int ranks = 1) {
    Program program(command(ranks, train("run", slow({"--run.steps", "1000000", "--checkpoint.every", "20"}))));
    ASSERT_TRUE(program.wait_for([&](const std::string&) { return newest_local() >= step; })) << program.output();
    for (const pid_t pid : ranks == 1 ? std::vector{program.pid()} : ranks_of(program)) kill(pid, SIGKILL);
    program.finish();
  }
  int64_t newest_local() const {
    const auto note = fs::exists(path("run")) ? read_local_note(path("run")) : std::nullopt;
    return note ? note->step : -1;
  }
  std::vector<std::string> on_disk() const {
    std::vector<std::string> names;
    if (!fs::exists(path("disk"))) return names;
    for (const auto& item : fs::recursive_directory_iterator(path("disk"))) names.push_back(item.path());
    return names;
  }
};

TEST_F(LocalDisk, GetsSnapshotsFirstAndIsEmptyWhenTheRunFolderHasThem) {
  const Outcome outcome = run(trireme_command(train("run", flags())));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  for (const char* step : {"6", "12", "18"})
    EXPECT_THAT(outcome.output,
                HasSubstr(fmt::format("snapshot of step {} is on the local disks, in {}/run-", step, path("disk"))));
  EXPECT_THAT(outcome.output, ::testing::ContainsRegex("snapshot of step 18 is in " + path("run") +
                                                       "/step-00000018 \\(copied in [0-9.]+ s"));
  EXPECT_THAT(list_steps(path("run")), ElementsAre(6, 12, 18));
  EXPECT_EQ(run(trireme_command({"checkpoint", "verify", path("run")})).code, 0);
  EXPECT_THAT(on_disk(), IsEmpty());
  EXPECT_FALSE(fs::exists(path("run") + "/local.json"));
  EXPECT_THAT(leftovers("run"), IsEmpty());
}

TEST_F(LocalDisk, NoStepWaitsForTheRunFolder) {
  write_text(path("hold"), "");
  Program program(trireme_command(train("run", flags({"--checkpoint.every", "100", "--run.steps", "350"}))),
                  fault("fsync", "run/.saving-", 0, {"FAULT_WHILE=" + path("hold"), "FAULT_SEEN=" + path("seen")}));
  ASSERT_TRUE(wait_for_file(program, path("seen")));
  ASSERT_TRUE(wait_for_text(program, "snapshot of step 300 is on the local disks")) << "its disk stands still";
  ASSERT_TRUE(wait_for_text(program, "copying the snapshot of step 100 to " + path("run") + ": "));
  EXPECT_THAT(list_steps(path("run")), IsEmpty());
  fs::remove(path("hold"));
  const Outcome outcome = program.finish();
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(list_steps(path("run")), ElementsAre(100, 200, 300, 350));
}

TEST_F(LocalDisk, AKilledRunResumesFromItAndTheFilesOfBothSidesAreListed) {
  kill_after(40);
  const int64_t step = newest_local();
  const std::string name = step_name(step);
  EXPECT_THAT(list_steps(path("run")), IsEmpty());
  const std::string only_local = name + " is only on the local disks of the hosts, in " + path("disk") + "/run-";
  EXPECT_THAT(run(trireme_command({"status", path("run")})).output,
              AllOf(HasSubstr("snapshot    none"), HasSubstr("local       " + only_local)));
  EXPECT_THAT(run(trireme_command({"status", path("run"), "--json"})).output,
              HasSubstr(fmt::format("\"step\":{},\"copied\":-1", step)));
  const Outcome list = run(trireme_command({"checkpoint", "list", path("run")}));
  EXPECT_EQ(list.code, 0) << list.output;
  EXPECT_THAT(list.output,
              AllOf(HasSubstr("1 of 1 shard are on this host's disk, in " + path("disk")), HasSubstr(only_local)));
  const Outcome verified = run(trireme_command({"checkpoint", "verify", path("run")}));
  EXPECT_EQ(verified.code, 0) << verified.output;
  EXPECT_THAT(verified.output, HasSubstr(": good; 1 of 1 shard are on this host's disk"));

  const auto last = std::to_string(step + 10);
  const Outcome next = run(trireme_command(train("run", flags({"--run.steps", last}))));
  EXPECT_EQ(next.code, 0) << next.output;
  EXPECT_THAT(next.output, HasSubstr("RESUMING from " + path("disk") + "/run-"));
  EXPECT_THAT(next.output, HasSubstr(fmt::format(": {} steps and {} samples are done", step, 12 * step)));
  EXPECT_THAT(on_disk(), IsEmpty());
}

TEST_F(LocalDisk, TheSameBitsComeOutAsWithoutAKill) {
  if (!has_mpi()) GTEST_SKIP() << "mpirun is missing";
  const std::vector<std::string> decay = {"--optim.decay-steps", "1000"};
  auto first = slow({"--run.steps", "1000000", "--checkpoint.every", "20"}), second = flags();
  for (auto* words : {&first, &second}) words->insert(words->end(), decay.begin(), decay.end());
  Program program(mpirun_command(2, train("run", first)));
  ASSERT_TRUE(program.wait_for([&](const std::string&) { return newest_local() >= 20; })) << program.output();
  for (const pid_t pid : ranks_of(program)) kill(pid, SIGKILL);
  program.finish();
  const std::string last = std::to_string(newest_local() + 7);
  second.push_back("--run.steps");
  second.push_back(last);
  const Outcome next = run(mpirun_command(2, train("run", second)));
  EXPECT_EQ(next.code, 0) << next.output;
  EXPECT_THAT(next.output, HasSubstr("RESUMING from " + path("disk") + "/run-")) << "both ranks see all of it";
  std::vector<std::string> whole = {"--run.steps", last};
  whole.insert(whole.end(), decay.begin(), decay.end());
  ASSERT_EQ(run(mpirun_command(2, train("whole", whole))).code, 0);
  EXPECT_EQ(weights("run"), weights("whole"));
}

TEST_F(LocalDisk, AStopCopiesWhatIsNotCopiedYet) {
  Program program(trireme_command(
      train("run", slow({"--run.steps", "1000000", "--checkpoint.every", "20", "--checkpoint.keep", "2"}))));
  ASSERT_TRUE(program.wait_for([&](const std::string&) { return newest_local() >= 60; })) << program.output();
  kill(program.pid(), SIGTERM);
  const Outcome outcome = program.finish();
  EXPECT_EQ(outcome.code, 75) << outcome.output;
  const int64_t step = read_status(path("run")).step;
  EXPECT_THAT(outcome.output, HasSubstr(fmt::format("copying the snapshot of step {} to {}: ", step, path("run"))));
  EXPECT_EQ(list_steps(path("run")).back(), step);
  EXPECT_EQ(run(trireme_command({"checkpoint", "verify", path("run")})).code, 0);
  EXPECT_THAT(on_disk(), IsEmpty());
}

TEST_F(LocalDisk, AFullOneSendsSnapshotsToTheRunFolderWithAWarning) {
  const Outcome outcome = run(trireme_command(train("run", flags())), fault("write", path("disk"), ENOSPC));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output,
              HasSubstr("warning: cannot write the snapshot of step 6 to a local disk; writing it directly to " +
                        path("run") + ": "));
  EXPECT_THAT(outcome.output, HasSubstr("No space left on device"));
  EXPECT_THAT(list_steps(path("run")), ElementsAre(6, 12, 18));
  EXPECT_THAT(leftovers("run"), IsEmpty());
  EXPECT_THAT(on_disk(), IsEmpty());
}

TEST_F(LocalDisk, OneThatIsFullOnOneRankDoesSoForAll) {
  if (!has_mpi()) GTEST_SKIP() << "mpirun is missing";
  const Outcome outcome = run(mpirun_command(2, train("run", flags())),
                              fault("fsync", path("disk"), EIO, {"FAULT_RANK=1", "FAULT_TIMES=1"}));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(count_of(outcome.output, "warning: cannot write the snapshot of step 6 to a local disk"), 1)
      << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("directly to " + path("run") + ": rank 1 on "));
  EXPECT_THAT(outcome.output, HasSubstr("snapshot of step 12 is on the local disks")) << "the next one fits again";
  EXPECT_THAT(list_steps(path("run")), ElementsAre(6, 12, 18));
}

TEST_F(LocalDisk, ARunFolderThatIsFullCostsNoSnapshotAndTheSameCommandCopies) {
  const Outcome outcome = run(trireme_command(train("run", flags())), fault("write", "run/.saving-", ENOSPC));
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_THAT(outcome.output,
              HasSubstr("warning: a snapshot could not be copied to " + path("run") + ", training continues"));
  EXPECT_THAT(outcome.output,
              HasSubstr("; the snapshot of step 18 is complete on the local disks; run the same command to copy it"));
  EXPECT_THAT(list_steps(path("run")), IsEmpty());
  const Outcome next = run(trireme_command(train("run", flags())));
  EXPECT_EQ(next.code, 0) << next.output;
  EXPECT_THAT(next.output, HasSubstr("RESUMING from " + path("disk")));
  EXPECT_EQ(list_steps(path("run")).back(), 18);
  EXPECT_THAT(on_disk(), IsEmpty());
}

TEST_F(LocalDisk, OrTrainingStopsWhereThatIsAsked) {
  const Outcome outcome =
      run(trireme_command(train("run", flags({"--checkpoint.on-error", "stop", "--run.steps", "1000000"}))),
          fault("write", "run/.saving-", ENOSPC));
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("No space left on device"));
}

TEST_F(LocalDisk, AStartWithoutTheOptionTakesWhatLiesThere) {
  kill_after(20);
  const int64_t step = newest_local();
  const Outcome next = run(trireme_command(train("run", {"--run.steps", std::to_string(step + 2)})));
  EXPECT_EQ(next.code, 0) << next.output;
  EXPECT_THAT(
      next.output,
      HasSubstr(fmt::format("the snapshot of step {} is complete on the local disks but not in {}: it is copied first",
                            step, path("run"))));
  EXPECT_THAT(next.output, HasSubstr("RESUMING from " + path("run") + "/" + step_name(step)));
  EXPECT_THAT(on_disk(), IsEmpty());
}

TEST_F(LocalDisk, ANewRunInTheFolderIsRefusedUnlessItMayOverwrite) {
  kill_after(20);
  const auto anew = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--checkpoint.resume", "none"});
    return run(trireme_command(train("run", flags(std::move(more)))));
  };
  const Outcome refused = anew({});
  EXPECT_EQ(refused.code, 2) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("already holds checkpoints"));
  const Outcome taken = anew({"--run.overwrite", "true"});
  EXPECT_EQ(taken.code, 0) << taken.output;
  EXPECT_THAT(list_steps(path("run")), ElementsAre(6, 12, 18));
  EXPECT_THAT(on_disk(), IsEmpty());
}

TEST_F(LocalDisk, ARunFolderThatHangsAtTheEndGivesAnErrorAndTheResultIsKept) {
  for (const int ranks : {1, 2}) {
    if (ranks > 1 && !has_mpi()) continue;
    write_text(path("hold"), "");
    const auto start = std::chrono::steady_clock::now();
    const Outcome outcome = run(command(ranks, train("run", flags({"--run.hang-timeout", "1"}))),
                                fault("fsync", "run/.saving-", 0, {"FAULT_WHILE=" + path("hold")}));
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    EXPECT_EQ(outcome.code, 1) << outcome.output;
    EXPECT_LT(taken.count(), 30) << "12 x run.hang-timeout, and the training";
    const std::string stalled = "the disk of " + path("run") + " has accepted no data of the snapshot of step 6 for ";
    EXPECT_EQ(count_of(outcome.output, "warning: " + stalled), 1) << outcome.output;
    EXPECT_THAT(outcome.output,
                ::testing::ContainsRegex("error: .* for 12 s; exiting with code 1; the same command resumes "
                                         "from the local disks"));
    EXPECT_THAT(list_steps(path("run")), IsEmpty());
    EXPECT_EQ(newest_local(), 18);
    fs::remove(path("hold"));
    const Outcome next = run(command(ranks, train("run", flags())));
    EXPECT_EQ(next.code, 0) << next.output;
    EXPECT_THAT(next.output, HasSubstr("RESUMING from " + path("disk") + "/run-"));
    EXPECT_EQ(list_steps(path("run")).back(), 18);
    EXPECT_THAT(on_disk(), IsEmpty());
    EXPECT_THAT(leftovers("run"), IsEmpty());
    fs::remove_all(path("run"));
  }
}

TEST_F(LocalDisk, AnImmediateStopCopiesNothingAndSaysWhereTheNewestIs) {
  Program program(trireme_command(train("run", slow({"--run.steps", "1000000", "--checkpoint.every", "20"}))));
  ASSERT_TRUE(program.wait_for([&](const std::string&) { return newest_local() >= 40; })) << program.output();
  const Outcome stopped = run(trireme_command({"stop", "--now", path("run")}));
  const Outcome outcome = program.finish();
  EXPECT_EQ(stopped.code, 0) << stopped.output;
  EXPECT_NE(outcome.code, 0);
  EXPECT_THAT(outcome.output, Not(HasSubstr("saving after step")));
  const int64_t step = newest_local();
  EXPECT_THAT(stopped.output,
              HasSubstr(fmt::format("newest snapshot: none; {} is only on the local disks of the hosts, in {}/run-",
                                    step_name(step), path("disk"))));
  EXPECT_THAT(list_steps(path("run")), IsEmpty());
  // The end may come between a newer snapshot and its entry in local.json.
  const int64_t newest = list_local_steps(read_local_note(path("run")).value().folder).back().step;
  const Outcome next = run(trireme_command(train("run", flags({"--run.steps", std::to_string(newest + 3)}))));
  EXPECT_EQ(next.code, 0) << next.output;
  EXPECT_THAT(next.output, HasSubstr("RESUMING from " + path("disk") + "/run-"));
  EXPECT_EQ(list_steps(path("run")).back(), newest + 3);
}

TEST_F(LocalDisk, PruneDeletesThereWhatTheRunFolderHasAndNothingNewer) {
  kill_after(60);
  const std::string folder = read_local_note(path("run")).value().folder;
  std::vector<LocalStep> steps = list_local_steps(folder);
  ASSERT_GE(steps.size(), 3u);
  for (const size_t i : {0u, 1u}) fs::copy(steps[i].path, path("run") + "/" + step_name(steps[i].step));
  const Outcome outcome = run(trireme_command({"checkpoint", "prune", path("run"), "--keep", "1"}));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output,
              HasSubstr(fmt::format("deleted 1 checkpoint of {}: steps {}\n", path("run"), steps[0].step)));
  for (const size_t i : {0u, 1u})
    EXPECT_THAT(outcome.output,
                HasSubstr("deleted " + steps[i].path + ": the run folder has this snapshot or a newer one\n"));
  EXPECT_THAT(list_steps(path("run")), ElementsAre(steps[1].step));
  const std::vector<LocalStep> left = list_local_steps(folder);
  ASSERT_EQ(left.size(), steps.size() - 2);
  EXPECT_EQ(left.front().step, steps[2].step);
  EXPECT_EQ(count_of(outcome.output, "deleted "), 3) << outcome.output;
  const auto last = std::to_string(steps.back().step + 2);
  const Outcome next = run(trireme_command(train("run", flags({"--run.steps", last}))));
  EXPECT_EQ(next.code, 0) << next.output;
  EXPECT_THAT(next.output, HasSubstr(fmt::format(": {} steps and ", steps.back().step)));
}

TEST_F(LocalDisk, ReadersOfTheModelUseTheNewestFromThereOrSayWhereItIs) {
  kill_after(20);
  const int64_t step = newest_local();
  const std::string newest = fmt::format("the newest snapshot of {}, step {}, is only on ", path("run"), step);
  const auto ask = [&](const std::string& output) {
    return run(trireme_command({"export", "--checkpoint", path("run"), "--output", path(output)}));
  };
  const Outcome exported = ask("exported");
  EXPECT_EQ(exported.code, 0) << exported.output;
  EXPECT_THAT(exported.output, HasSubstr(newest + "this host's disk; reading it from " + path("disk") + "/run-"));
  EXPECT_THAT(exported.output, HasSubstr(fmt::format("(step {}, ", step)));
  const std::vector<std::string> sample = {"sample", "--model", path("run"), "--prompt", "a"};
  EXPECT_THAT(run(trireme_command(sample)).output, HasSubstr(newest + "this host's disk; reading it from "));
  const std::string none =
      fmt::format("{} has no checkpoint yet: the snapshot of step {} is only on the local disks of the hosts, in ",
                  path("run"), step);
  if (has_mpi()) {
    auto shared_out = sample;
    shared_out.insert(shared_out.end(), {"--mesh.tensor", "2"});
    const Outcome ranks = run(mpirun_command(2, shared_out));
    EXPECT_EQ(ranks.code, 1) << ranks.output;
    EXPECT_THAT(ranks.output, AllOf(HasSubstr(none),
                                    HasSubstr(", where a single process can read it; the training command copies it")));
  }
  const auto lose_a_shard = [&] {
    const LocalStep last = list_local_steps(read_local_note(path("run")).value().folder).back();
    fs::remove(last.path + "/" + last.manifest.shards.at(0).file);
  };
  lose_a_shard();
  const Outcome lost = ask("none");
  EXPECT_EQ(lost.code, 1) << lost.output;
  EXPECT_THAT(lost.output, AllOf(HasSubstr(none), HasSubstr(", and not complete on this one; the training command")));
  EXPECT_THAT(
      run(trireme_command({"checkpoint", "show", path("run")})).output,
      HasSubstr("has no checkpoint: neither a manifest.json nor a step-* folder with one; the local disks of the "
                "hosts have some, in " +
                path("disk")));
}

TEST_F(LocalDisk, ReadersUseTheRunFoldersOlderSnapshotIfTheNewestIsIncompleteHere) {
  ASSERT_EQ(run(trireme_command(train("run", flags({"--optim.decay-steps", "1000"})))).code, 0);
  Program program(trireme_command(
      train("run", slow({"--run.steps", "1000000", "--checkpoint.every", "20", "--optim.decay-steps", "1000"}))));
  ASSERT_TRUE(program.wait_for([&](const std::string&) { return newest_local() >= 40; })) << program.output();
  kill(program.pid(), SIGKILL);
  program.finish();
  const LocalStep last = list_local_steps(read_local_note(path("run")).value().folder).back();
  fs::remove(last.path + "/" + last.manifest.shards.at(0).file);
  const Outcome outcome = run(trireme_command({"export", "--checkpoint", path("run"), "--output", path("exported")}));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output,
              HasSubstr(fmt::format(
                  "warning: the newest snapshot of {}, step {}, is only on the local disks of the hosts, in "
                  "{}, and not complete on this one; reading that of step 18; the training command copies the newest",
                  path("run"), last.step, fs::path(last.path).parent_path().string())));
  EXPECT_THAT(outcome.output, HasSubstr("(step 18, "));
}

TEST_F(LocalDisk, OptionsThatMakeNoSenseAreRefused) {
  const Outcome relative = run(trireme_command(train("run", {"--checkpoint.local", "scratch"})));
  EXPECT_EQ(relative.code, 2);
  EXPECT_THAT(relative.output,
              HasSubstr("expected the absolute path of a folder on a local disk of every host, like /scratch"));
  const Outcome limit = run(trireme_command(train("run", {"--checkpoint.copy-mb-per-second", "10"})));
  EXPECT_EQ(limit.code, 2);
  EXPECT_THAT(limit.output, HasSubstr("limits copying from local disks, but no snapshots are written to local disks; "
                                      "set --checkpoint.local DIR, or remove it"));
  write_text(path("file"), "");
  const Outcome none = run(trireme_command(train("run", {"--checkpoint.local", path("file")})));
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.output, AllOf(HasSubstr("for checkpoint.local: Not a directory"), Not(HasSubstr("step  1/"))));
}

TEST_F(LocalDisk, KillsOfRanksAtAnyInstantLoseNoReportedSnapshot) {
  if (!has_mpi()) GTEST_SKIP() << "mpirun is missing";
  const char* asked = std::getenv("TRIREME_LOCAL_RUN_KILLS");
  const int kills = asked ? std::atoi(asked) : 4;
  RandomStream random(mix_key(54));
  int64_t last = 0;
  for (int done = 0; done < kills && !HasFailure(); ++done) {
    Program program(
        mpirun_command(2, train("run", flags({"--run.steps", "1000000", "--checkpoint.every", "5", "--checkpoint.keep",
                                              "2", "--optim.decay-steps", "1000", "--checkpoint.copy-mb-per-second",
                                              random.below(2) ? "0.5" : "0"}))));
    const auto told = [&](const std::string& output, const std::string& before) {
      const size_t at = output.rfind(before);
      return at == std::string::npos ? -1 : std::atoll(output.c_str() + at + before.size());
    };
    ASSERT_TRUE(program.wait_for([&](const std::string& output) {
      return told(output, "snapshot of step ") > last + 5;
    })) << program.output();
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(60'000)));  // the random instant
    const std::vector<pid_t> ranks = ranks_of(program);
    kill(ranks.at(random.below(2)), SIGKILL);
    const Outcome outcome = program.finish();
    const int64_t newest = told(outcome.output, "snapshot of step ");
    const size_t at = outcome.output.find(" steps and ");
    if (done > 0) {
      ASSERT_NE(at, std::string::npos) << outcome.output;
      const size_t colon = outcome.output.rfind(' ', at - 1);
      EXPECT_GE(std::atoll(outcome.output.c_str() + colon), last) << outcome.output;
    }
    last = std::max(last, newest);
  }
  const Outcome outcome = run(mpirun_command(
      2, train("run", flags({"--run.steps", std::to_string(last + 20), "--optim.decay-steps", "1000"}))));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(run(trireme_command({"checkpoint", "verify", path("run")})).code, 0);
  EXPECT_THAT(on_disk(), IsEmpty());
  EXPECT_THAT(leftovers("run"), IsEmpty());
}

}  // namespace
}  // namespace trireme
