// Values that are not numbers.

#include <fstream>
#include <limits>

#include "checkpoint/run_folder/run_folder.h"
#include "tests/faults/fault_fixture.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

class Numbers : public FaultFixture {
 protected:
  /// Flags of a run whose weights explode in its next step.
  std::vector<std::string> explosion(const std::string& steps) const {
    return {"--run.steps",          steps, "--checkpoint.every", "5",       "--optim.learning-rate",     "100",
            "--optim.weight-decay", "100", "--optim.clip",       "0",       "--optim.min-learning-rate", "100",
            "--optim.warmup-steps", "0",   "--optim.schedule",   "constant"};
  }
};

TEST_F(Numbers, NonFiniteStepsAreSkippedAndAfterTheLimitTheSamplesAreWritten) {
  run(trireme_command(train("run", {"--run.steps", "3", "--optim.decay-steps", "20"})));
  poison("run", "embedding.token.weight", 3e38f);
  std::vector<std::vector<std::string>> commands = {trireme_command(train("run", {"--run.max-skips", "3"}))};
  if (has_mpi()) commands.push_back(mpirun_command(2, train("run", {"--run.max-skips", "3"})));
  for (const auto& command : commands) {
    std::filesystem::remove(path("run") + "/bad-samples.json");
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.code, 1) << outcome.output;
    EXPECT_EQ(count_of(outcome.output, "is not finite; samples "), 3) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr("not finite 3 steps in a row, up to step 7 (samples 48 to 83; see " +
                                          path("run") + "/bad-samples.json)"));
    const std::string list = read_text(path("run") + "/bad-samples.json");
    EXPECT_THAT(list, HasSubstr("\"first_sample\": 48"));
    EXPECT_THAT(list, HasSubstr("\"last_sample\": 83"));
    EXPECT_EQ(count_of(list, "\"step\""), 3);
  }
}

TEST_F(Numbers, ASnapshotOfWeightsThatExplodedJustBeforeItDeletesNoGoodOne) {
  ASSERT_EQ(run(trireme_command(train("run", {"--run.steps", "10"}))).code, 0);
  auto flags = explosion("200");
  // Bad steps take less time than a snapshot: without many of them the run ends before that of step 11 is complete.
  flags.insert(flags.end(), {"--checkpoint.keep", "1", "--checkpoint.every", "1", "--run.max-skips", "150"});
  EXPECT_EQ(run(trireme_command(train("run", flags))).code, 1);
  EXPECT_THAT(list_steps(path("run")), ::testing::ElementsAre(10, 11)) << "the step after 11 was the first bad one";
  const Outcome back =
      run(trireme_command(train("run", {"--run.steps", "12", "--checkpoint.resume", path("run") + "/step-00000010"})));
  EXPECT_EQ(back.code, 0) << back.output;
  EXPECT_EQ(progress("run").step, 12);
}

TEST_F(Numbers, NonFiniteWeightsAreRefusedByEveryCommandThatUsesThem) {
  write_text(path("letters.txt"), std::string(200, 'a') + "bcdefghijklmnopqrstuvwxyz.,;:!");
  ASSERT_EQ(run(trireme_command({"prepare", "--input", path("letters.txt"), "--tokenizer", "char", "--output",
                                 path("tokenizer"), "--val-fraction", "0"}))
                .code,
            0);
  ASSERT_EQ(run(trireme_command(train("run", {"--run.steps", "3", "--optim.decay-steps", "20", "--data.tokenizer",
                                              path("tokenizer/tokenizer.json")})))
                .code,
            0);
  poison("run", "block.1.mlp.in.weight", std::numeric_limits<float>::quiet_NaN());
  const std::string named = "step-00000004 holds NaN or infinite values: block.1.mlp.in.weight (4096 of 4096 values); ";
  const Outcome resumed = run(trireme_command(train("run")));
  EXPECT_EQ(resumed.code, 1) << resumed.output;
  EXPECT_THAT(resumed.output, HasSubstr(named + "training cannot resume from it; name an earlier one with "
                                                "--checkpoint.resume"));
  const Outcome begun = run(trireme_command(train("other", {"--model.init", path("run")})));
  EXPECT_EQ(begun.code, 1) << begun.output;
  EXPECT_THAT(begun.output, HasSubstr(named + "training cannot start from them"));
  const std::vector<std::string> sample = {"sample", "--model", path("run"), "--max-new-tokens", "1"},
                                 exported = {"export", "--model", path("run"), "--output", path("out")};
  for (std::vector<std::string> words : {sample, exported}) {
    const Outcome outcome = run(trireme_command(words));
    EXPECT_EQ(outcome.code, 1) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(named));
    words.push_back("--force");
    const Outcome forced = run(trireme_command(words));
    EXPECT_THAT(forced.output, ::testing::Not(HasSubstr("holds NaN")));
    EXPECT_LT(forced.code, words[0] == "export" ? 1 : 128) << forced.output;
  }
  const Outcome earlier =
      run(trireme_command(train("run", {"--checkpoint.resume", path("run") + "/step-00000003", "--data.tokenizer",
                                        path("tokenizer/tokenizer.json"), "--run.steps", "5"})));
  EXPECT_EQ(earlier.code, 0) << earlier.output;
}

/// A bit of the last rank's token matrix turns before the hash reads it the second time, after step 5.
class FlippedBit : public FaultFixture {
 protected:
  void SetUp() override {
    if (!has_mpi()) GTEST_SKIP() << "mpirun is missing";
  }
  Outcome run_ranks(int ranks, const std::string& name, const std::vector<std::string>& flags = {}) {
    std::vector<std::string> all = {"--run.hash-every", "5", "--batch.micro", "2"};
    all.insert(all.end(), flags.begin(), flags.end());
    const std::string rank = "FAULT_RANK=" + std::to_string(ranks - 1);
    return run(mpirun_command(ranks, train(name, all)),
               fault("flip", "embedding.token.weight", 1, {rank, "FAULT_FIRST=3", "FAULT_TIMES=1"}));
  }
};

TEST_F(FlippedBit, IsFoundWithinTheIntervalAndHealedFromAGoodRank) {
  const Outcome outcome = run_ranks(3, "run");
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(count_of(outcome.output, "warning: rank 2 on "), 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("had different parameters from the other 2 ranks after step 5"));
  EXPECT_THAT(outcome.output, HasSubstr("copied from rank 0"));
  // The bit turned where the hash looks, so that nothing had been computed with it.
  ASSERT_EQ(run(mpirun_command(3, train("good", {"--batch.micro", "2"}))).code, 0);
  EXPECT_EQ(weights("run"), weights("good"));
}

TEST_F(FlippedBit, OrTheRankIsNamedAndAllStop) {
  const Outcome outcome = run_ranks(3, "run", {"--run.on-difference", "stop"});
  EXPECT_EQ(outcome.code, 2) << outcome.output;
  EXPECT_EQ(count_of(outcome.output, "ranks hold different parameters after step 5: rank 2 on "), 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("differs from the other 2"));
}

TEST_F(FlippedBit, OfTwoRanksBothAreNamed) {
  const Outcome outcome = run_ranks(2, "run");
  EXPECT_EQ(outcome.code, 2) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("no majority agrees among rank 0 on "));
}

/// Tokens that follow a rule except for a stretch of noise, trained on two windows at a time: those of the stretch are
/// spikes.
class Spike : public FaultFixture {
 protected:
  Spike() {
    std::ofstream out(path("train.bin"), std::ios::binary);
    uint32_t state = 1;
    for (uint32_t i = 0; i < 20000; ++i) {
      state = state * 1664525u + 1013904223u;
      const bool noise = i >= 10000 && i < 10064;
      const char bytes[2] = {static_cast<char>(noise ? (state >> 16) % 31 : i % 31), 0};
      out.write(bytes, 2);
    }
  }
  std::vector<std::string> training(const std::string& name, const std::vector<std::string>& flags) const {
    std::vector<std::string> all = {"--batch.global", "2", "--run.steps", "1000", "--log.every", "100"};
    all.insert(all.end(), flags.begin(), flags.end());
    return trireme_command(train(name, all));
  }
};

TEST_F(Spike, RollsBackToTheLastSnapshotAndPassesOverTheSamples) {
  const Outcome outcome = run(training("run", {"--run.on-spike", "roll-back", "--checkpoint.every", "20"}));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  const int times = count_of(outcome.output, "warning: rolled back to the snapshot of step ");
  EXPECT_GT(times, 0) << outcome.output;
  const RunCounters p = progress("run");
  EXPECT_EQ(p.step, 1000);
  EXPECT_EQ(p.updates, 1000) << "what was rolled back was done again with other samples";
  EXPECT_GT(p.samples, 2000u);
  EXPECT_EQ(p.skipped, times);
}

}  // namespace
}  // namespace trireme
