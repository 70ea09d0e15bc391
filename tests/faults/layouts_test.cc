// Failures on ranks that share a model: the error names the rank's place, nothing is lost, and the run resumes with any
// other layout.

#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/run_folder/run_folder.h"
#include "tests/faults/fault_fixture.h"

namespace trireme {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Flags = std::vector<std::string>;

struct FaultyLayout {
  const char* name;
  int ranks;
  const char* second;  ///< rank 1 with its place
  Flags flags;
};
const FaultyLayout kLayouts[] = {
    {"tensor_and_pipeline", 4, "rank 1 (data 0, tensor 1, pipeline 0)", {"--mesh.tensor", "2", "--mesh.pipeline", "2"}},
    {"four_stages", 4, "rank 1 (data 0, tensor 0, pipeline 1)", {"--mesh.pipeline", "4", "--batch.micro", "3"}},
    {"interleaved",
     4,
     "rank 1 (data 0, tensor 1, pipeline 0)",
     {"--mesh.tensor", "2", "--mesh.pipeline", "2", "--mesh.chunks", "2", "--batch.micro", "3"}},
    {"shared_optimizer", 2, "rank 1", {"--optim.shard", "optimizer"}},
    {"shared_parameters", 2, "rank 1", {"--optim.shard", "parameters", "--batch.micro", "3"}},
    {"shared_in_hosts",
     2,
     "rank 1",
     {"--optim.shard", "gradients", "--optim.shard-group", "host", "--comm.reduce", "hosts", "--batch.micro", "3"}},
};

class FaultsOnLayouts : public FaultFixture, public testing::WithParamInterface<FaultyLayout> {
 protected:
  void SetUp() override {
    if (!has_mpi()) GTEST_SKIP() << "mpirun is missing";
  }
  static Flags with(Flags all, const Flags& more) {
    all.insert(all.end(), {"--model.layers", "4"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::vector<std::string> command(const std::string& name, const Flags& flags) const {
    return mpirun_command(GetParam().ranks, train(name, with(flags, GetParam().flags)));
  }
  /// It resumes on one rank, from a complete snapshot.
  void expect_to_go_on(const std::string& name) const {
    const auto resumable = find_resumable(path(name));
    ASSERT_TRUE(resumable);
    EXPECT_THAT(verify_checkpoint(resumable->path), ::testing::IsEmpty());
    const std::string steps = std::to_string(resumable->facts.progress.step + 2);
    const Outcome outcome = run(trireme_command(train(name, with({"--run.steps", steps}, {}))));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr("RESUMING from "));
  }
  /// Training, with a snapshot published, in which rank 1 gets a signal.
  Outcome signalled(const std::string& name, int signal) {
    Program program(command(name, {"--run.steps", "1000000", "--checkpoint.every", "5", "--run.hang-timeout", "4"}));
    wait_for_file(program, path(name) + "/latest");
    kill(pid_of_rank(program, 1), signal);
    return program.finish();
  }
  void expect_loss(const std::string& name, const Outcome& outcome, const std::string& reason) const {
    EXPECT_NE(outcome.code, 0);
    if (mpirun_is_hydra()) return;  // which may end the survivors before they report it
    EXPECT_EQ(read_status(path(name)).state, RunState::peer_lost) << outcome.output;
    EXPECT_EQ(read_status(path(name)).rank, 1);
    EXPECT_THAT(outcome.output, HasSubstr(std::string("error: ") + GetParam().second + " on "));
    EXPECT_THAT(outcome.output, HasSubstr("was lost (" + reason));
    EXPECT_THAT(outcome.output, ContainsRegex("waiting for [a-z -]+"));
  }
};

INSTANTIATE_TEST_SUITE_P(Faults, FaultsOnLayouts, testing::ValuesIn(kLayouts),
                         [](const auto& layout) { return std::string(layout.param.name); });

TEST_P(FaultsOnLayouts, AKilledRankIsNamedWithItsPlace) {
  expect_loss("run", signalled("run", SIGKILL), "its connection closed");
  expect_to_go_on("run");
}

TEST_P(FaultsOnLayouts, AHungRankIsNamedWithItsPlace) {
  expect_loss("run", signalled("run", SIGSTOP), "no heartbeat for ");
  expect_to_go_on("run");
}

TEST_P(FaultsOnLayouts, NonFiniteNumbersInTheMiddleOfTheModelSkipTheStepOnAllRanks) {
  ASSERT_EQ(run(trireme_command(train("run", with({"--run.steps", "3", "--optim.decay-steps", "20"}, {})))).code, 0);
  poison("run", "block.1.mlp.in.weight", 3e38f);
  const Outcome outcome = run(command("run", {"--run.max-skips", "3"}));
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_EQ(count_of(outcome.output, "is not finite; samples "), 3) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("not finite 3 steps in a row, up to step 7 (samples 48 to 83"));
}

TEST_P(FaultsOnLayouts, ADiskThatIsFullOnOneRankCostsASnapshotAndNoMore) {
  const Outcome outcome =
      run(command("run", {"--checkpoint.every", "6", "--checkpoint.keep", "0", "--run.steps", "18"}),
          fault("write", ".saving-00000012", ENOSPC, {"FAULT_RANK=1"}));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("the snapshot of step 12 is lost"));
  EXPECT_THAT(outcome.output, HasSubstr("rank 1 on "));
  EXPECT_THAT(list_steps(path("run")), ElementsAre(6, 18));
  EXPECT_THAT(leftovers("run"), ::testing::IsEmpty());
}

TEST_P(FaultsOnLayouts, ATruncatedShardIsNamedAndTheStepBeforeIsUsed) {
  const Flags flags{"--checkpoint.every", "6", "--checkpoint.keep", "0", "--run.steps", "12"};
  ASSERT_EQ(run(command("run", flags)).code, 0);
  const std::string shard =
      fmt::format("{}/step-00000012/rank-00001-of-{:05}.safetensors", path("run"), GetParam().ranks);
  std::filesystem::resize_file(shard, std::filesystem::file_size(shard) - 1);
  const Outcome outcome = run(command("run", flags));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("rank-00001-of-"));
  EXPECT_THAT(outcome.output, HasSubstr("is truncated"));
  EXPECT_THAT(outcome.output, HasSubstr("RESUMING from " + path("run") + "/step-00000006: 6 steps"));
}

/// A bit of a block's weights: the second tensor rank's rows of the token matrix are padding here.
TEST_F(FaultFixture, AFlippedBitIsLookedForAmongThoseWhoHoldTheSame) {
  if (!has_mpi()) GTEST_SKIP() << "mpirun is missing";
  const auto flipped = [&](const std::string& name, int ranks, int rank) {
    return run(mpirun_command(ranks, train(name, {"--run.hash-every", "5", "--mesh.tensor", "2"})),
               fault("flip", "embedding.token.weight", 1,
                     {"FAULT_RANK=" + std::to_string(rank), "FAULT_FIRST=2", "FAULT_TIMES=1", "FAULT_AT=40000"}));
  };
  const Outcome two = flipped("two", 4, 3);
  EXPECT_EQ(two.code, 2) << two.output;
  EXPECT_THAT(two.output, HasSubstr("ranks hold different parameters after step 1: no majority agrees among"));
  EXPECT_THAT(two.output, HasSubstr("rank 1 (data 0, tensor 1, pipeline 0) on "));
  EXPECT_THAT(two.output, HasSubstr("rank 3 (data 1, tensor 1, pipeline 0) on "));
  const Outcome three = flipped("three", 6, 5);
  EXPECT_EQ(three.code, 0) << three.output;
  EXPECT_THAT(three.output, HasSubstr("rank 5 (data 2, tensor 1, pipeline 0) on "));
  EXPECT_THAT(three.output, HasSubstr("copied from rank 1"));
}

}  // namespace
}  // namespace trireme
