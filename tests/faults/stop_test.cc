// A stop request is honoured in every phase of a run.

#include "checkpoint/run_folder/run_folder.h"
#include "data/indexed_dataset.h"
#include "tests/faults/fault_fixture.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

class StopInEveryPhase : public FaultFixture {
 protected:
  void SetUp() override {
    if (!has_mpi()) GTEST_SKIP() << "mpirun is missing";
  }
  /// All ranks have left with 75.
  void expect_stopped(const std::string& run, const Outcome& outcome) {
    for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(code_of(run, rank), 75) << outcome.output;
    EXPECT_EQ(read_status(path(run)).state, RunState::stopped);
    EXPECT_EQ(read_status(path(run)).code, 75);
  }

  /// The program is held by a fault until the file `hold` is gone, and has reported this in `seen`; rank 1 is stopped
  /// meanwhile.
  Outcome stop_while_held(Program& program) {
    EXPECT_TRUE(wait_for_file(program, path("seen")));
    kill(pid_of_rank(program, 1), SIGTERM);
    std::filesystem::remove(path("hold"));
    Outcome outcome = program.finish();
    expect_stopped("run", outcome);
    EXPECT_THAT(outcome.output, HasSubstr("stopped while the data was read: nothing to save"));
    return outcome;
  }
};

TEST_F(StopInEveryPhase, BeforeTheFirstStepNothingIsSaved) {
  // The evaluation before the first step takes longer than any test.
  Program program(
      ranks_command(2, "run", {"--evaluation.every", "1000", "--evaluation.batches", "1000000", "--run.steps", "10"}));
  ASSERT_TRUE(wait_for_file(program, path("run") + "/metrics.jsonl"));
  kill(pid_of_rank(program, 1), SIGTERM);
  const Outcome outcome = program.finish();
  expect_stopped("run", outcome);
  EXPECT_THAT(outcome.output, HasSubstr("stopped before the first step: nothing to save"));
  EXPECT_THAT(list_steps(path("run")), ::testing::IsEmpty());
}

TEST_F(StopInEveryPhase, DuringTheStart) {
  // Rank 0 waits while it takes the lock, the others wait for it.
  write_text(path("hold"), "");
  Program program(ranks_command(2, "run"),
                  fault("fsync", "run/lock", 0, {"FAULT_WHILE=" + path("hold"), "FAULT_SEEN=" + path("seen")}));
  stop_while_held(program);
}

TEST_F(StopInEveryPhase, WhileTheDataIsRead) {
  // Both ranks hash a file of 40 blocks and are held at the first.
  std::filesystem::resize_file(path("train.bin"), 40u << 22);
  write_text(path("hold"), "");
  Program program(ranks_command(2, "run", {"--data.verify"}),
                  fault("hash", std::to_string(4 << 20), 0,
                        {"FAULT_WHILE=" + path("hold"), "FAULT_SEEN=" + path("seen"), "FAULT_TIMES=1"}));
  const Outcome outcome = stop_while_held(program);
  EXPECT_EQ(count_of(outcome.output, "error: "), 0) << outcome.output;
}

TEST_F(StopInEveryPhase, WhileTheOrderOfAnIndexedDatasetIsMade) {
  // One rank makes the order's files and is held at the first, the other one waits for it.
  constexpr int32_t kLength = 100;
  const std::string ids = read_text(path("train.bin"));
  IndexedLayout layout;
  for (size_t left = ids.size() / 2; left >= kLength; left -= kLength) {
    layout.lengths.push_back(kLength);
    layout.documents.push_back(static_cast<int64_t>(layout.lengths.size()));
  }
  write_text(path("set.bin"), ids);
  write_index(path("set.idx"), layout);
  write_text(path("hold"), "");
  Program program(ranks_command(2, "run", {"--data.train", path("set"), "--run.steps", "1000000"}),
                  fault("fsync", "_doc_idx.npy", 0,
                        {"FAULT_WHILE=" + path("hold"), "FAULT_SEEN=" + path("seen"), "FAULT_TIMES=1"}));
  stop_while_held(program);
  EXPECT_THAT(list_steps(path("run")), ::testing::IsEmpty());
}

TEST_F(StopInEveryPhase, InAnEvaluation) {
  run(mpirun_command(2, train("run", {"--run.steps", "2", "--optim.decay-steps", "20"})));
  Program program(ranks_command(2, "run", {"--evaluation.every", "3", "--evaluation.batches", "1000000"}));
  ASSERT_TRUE(wait_for_text(program, "step  3/20"));
  kill(pid_of_rank(program, 1), SIGUSR1);
  const Outcome outcome = program.finish();
  expect_stopped("run", outcome);
  EXPECT_EQ(progress("run").step, 3);
}

TEST_F(StopInEveryPhase, InASaveWhichIsThenPublished) {
  write_text(path("hold"), "");
  Program program(
      ranks_command(2, "run", {"--run.steps", "1000000", "--checkpoint.every", "4", "--checkpoint.keep", "0"}),
      fault("fsync", "/rank-00001-of-", 0,
            {"FAULT_WHILE=" + path("hold"), "FAULT_SEEN=" + path("seen"), "FAULT_TIMES=1"}));
  ASSERT_TRUE(wait_for_file(program, path("seen")));
  kill(pid_of_rank(program, 1), SIGINT);
  std::filesystem::remove(path("hold"));
  const Outcome outcome = program.finish();
  expect_stopped("run", outcome);
  EXPECT_THAT(list_steps(path("run")), ::testing::Contains(4));
  EXPECT_THAT(outcome.output, HasSubstr("saving after step " + std::to_string(progress("run").step)));
  EXPECT_THAT(leftovers("run"), ::testing::IsEmpty());
}

TEST_F(FaultFixture, TwoSignalsInOneInstantStopAnExportAsOneDoes) {
  ASSERT_EQ(run(trireme_command(train("run", {"--run.steps", "1", "--optim.decay-steps", "20"}))).code, 0);
  write_text(path("hold"), "");
  Program program(trireme_command({"export", "--checkpoint", path("run"), "--output", path("out")}),
                  fault("open", "model.safetensors", 0, {"FAULT_WHILE=" + path("hold"), "FAULT_SEEN=" + path("seen")}));
  ASSERT_TRUE(wait_for_file(program, path("seen")));
  terminate_twice(program);
  std::filesystem::remove(path("hold"));
  const Outcome outcome = program.finish();
  EXPECT_EQ(outcome.code, 75) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("the export was stopped after 0 of "));
  for (const auto& item : std::filesystem::directory_iterator(std::filesystem::path(path("out")).parent_path()))
    EXPECT_FALSE(item.path().filename().string().starts_with("out")) << item.path();
}

TEST_F(FaultFixture, ASecondSignalExitsImmediatelyWithoutAHalfPublishedSnapshot) {
  run(trireme_command(train("run", {"--run.steps", "3", "--optim.decay-steps", "20"})));
  write_text(path("hold"), "");
  Program program(trireme_command(train("run", {"--run.steps", "1000000"})),
                  fault("fsync", ".saving-", 0, {"FAULT_WHILE=" + path("hold"), "FAULT_SEEN=" + path("seen")}));
  ASSERT_TRUE(wait_for_text(program, "step      10/"));
  kill(program.pid(), SIGTERM);
  ASSERT_TRUE(wait_for_file(program, path("seen")));
  kill(program.pid(), SIGTERM);  // Slurm sends it twice: the same request
  EXPECT_FALSE(program.wait_for([](const std::string&) { return false; }, 5.5));
  EXPECT_TRUE(program.running());
  kill(program.pid(), SIGTERM);
  const Outcome outcome = program.finish();
  EXPECT_EQ(outcome.code, 75) << outcome.output;
  EXPECT_EQ(progress("run").step, 3);
  EXPECT_THAT(leftovers("run"), ::testing::SizeIs(1));
  // The next start removes the remains.
  const Outcome next = run(trireme_command(train("run", {"--run.steps", "4", "--optim.decay-steps", "20"})));
  EXPECT_EQ(next.code, 0) << next.output;
  EXPECT_THAT(leftovers("run"), ::testing::IsEmpty());
}

TEST_F(FaultFixture, ASecondJobOnTheFolderIsRefusedAndTheFirstContinues) {
  Program first(trireme_command(train("run", {"--run.steps", "1000000"})));
  ASSERT_TRUE(wait_for_text(first, "step       2/"));
  const Outcome second = run(trireme_command(train("run", {"--run.steps", "5"})));
  EXPECT_EQ(second.code, 1);
  EXPECT_THAT(second.output, HasSubstr("belongs to process " + std::to_string(first.pid()) + " on "));
  EXPECT_THAT(second.output, HasSubstr("--run.take-over"));
  EXPECT_TRUE(first.running());
  kill(first.pid(), SIGTERM);
  EXPECT_EQ(first.finish().code, 75);
}

}  // namespace
}  // namespace trireme
