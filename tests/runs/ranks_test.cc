// Several ranks train the same model as one rank.

#include <gmock/gmock.h>

#include <regex>

#include "tests/runs/training_fixture.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

class Ranks : public TrainingFixture {
 protected:
  void SetUp() override {
    if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  }
  Outcome run_ranks(int ranks, const std::string& run_name, const std::vector<std::string>& flags = {},
                    const std::vector<std::string>& environment = {}) {
    const Outcome outcome =
        run(ranks == 1 ? trireme_command(train(run_name, flags)) : mpirun_command(ranks, train(run_name, flags)),
            environment);
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    return outcome;
  }
};

TEST_F(Ranks, HoldTheBitsOfOneRankThatAccumulatesTheSameMicroBatches) {
  // 12 sequences: 2, 3 and 4 ranks with one micro-batch each, against one rank with the same number.
  for (const int ranks : {2, 3, 4}) {
    const std::vector<std::string> flags = {"--batch.micro", std::to_string(12 / ranks)};
    const std::string one = "one-" + std::to_string(ranks), several = "several-" + std::to_string(ranks);
    run_ranks(1, one, flags);
    run_ranks(ranks, several, flags);
    EXPECT_EQ(weights(one), weights(several)) << ranks << " ranks";
    EXPECT_EQ(losses(one).size(), 20u);
  }
}

TEST_F(Ranks, ShareTheCoresOfTheirMachineWhateverHostNamesTheyHave) {
  if (run({"unshare", "--uts", "true"}).code != 0)
    GTEST_SKIP() << "other host names need rights that this user has not";
  std::vector<std::string> words = mpirun_command(2, train("named", {"--batch.micro", "6"}));
  // As in containers, each rank has a host name of its own.
  const std::vector<std::string> named = {
      "unshare", "--uts", "sh", "-c", "hostname rank-${OMPI_COMM_WORLD_RANK:-$PMI_RANK} && exec \"$@\"", "sh"};
  words.insert(words.begin() + 3, named.begin(), named.end());  // before the program
  const Outcome outcome = run(words);
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("rank 0: "));
  EXPECT_THAT(outcome.output, HasSubstr("rank 1: "));
  run_ranks(2, "plain", {"--batch.micro", "6"});
  EXPECT_EQ(weights("named"), weights("plain"));
}

TEST_F(Ranks, EndWithWhatTheirBeingSeveralCostInProcessorTime) {
  const std::string number = "([0-9]+\\.[0-9])";
  const std::regex line("processor time of 2 ranks: " + number + " s, of it " + number + " % computing, " + number +
                        " % waiting for other ranks, " + number + " % exchange of gradients, " + number +
                        " % control channel");
  const Outcome two = run_ranks(2, "two");
  std::smatch found;
  ASSERT_TRUE(std::regex_search(two.output, found, line)) << two.output;
  double sum = 0;
  for (size_t part = 2; part <= 5; ++part) sum += std::stod(found[part]);
  EXPECT_NEAR(sum, 100, 0.3) << found[0];
  EXPECT_GT(std::stod(found[2]), 0) << found[0];
  EXPECT_THAT(run_ranks(1, "one").output, ::testing::Not(HasSubstr("processor time of")));
}

TEST_F(Ranks, EndWithTheMemoryOfTheLargestBesideItsPlan) {
  // Large enough that libraries' own memory is little beside the plan, which is in the log before the first step.
  const std::vector<std::string> flags = {"--model.width", "512", "--model.vocabulary", "20000", "--run.steps", "2"};
  for (const int ranks : {1, 2}) {
    const Outcome outcome = run_ranks(ranks, std::to_string(ranks), flags);
    std::smatch plan, end;
    ASSERT_TRUE(std::regex_search(outcome.output, plan, std::regex("memory +([0-9.]+) GB planned per rank")))
        << outcome.output;
    const std::string numbers = "planned ([0-9.]+) GB, peak ([0-9.]+) GB";
    const std::regex line(ranks == 1 ? "memory: " + numbers + "\n"
                                     : "memory per rank: " + numbers + " \\(rank [01], the largest of 2\\)\n");
    ASSERT_TRUE(std::regex_search(outcome.output, end, line)) << outcome.output;
    EXPECT_EQ(end[1], plan[1]);
    EXPECT_NEAR(std::stod(end[2]), std::stod(end[1]), 0.25 * std::stod(end[1])) << end[0];
  }
}

TEST_F(Ranks, EndWithTheTimeOfAStepBesideItsPlan) {
  // Longer than the two seconds from which on steps are judged, on a fast machine, too.
  const std::vector<std::string> flags = {"--model.width",      "256",  "--model.context", "64",
                                          "--model.vocabulary", "2000", "--run.steps",     "200"};
  const Outcome outcome = run_ranks(2, "long", flags);
  const std::regex line(
      "step: ([0-9.]+) s planned with the rates of this machine \\(products [0-9.]+ s[^)]*\\), ([0-9.]+) s measured "
      "\\([+-][0-9.]+ %\\)");
  std::smatch found;
  ASSERT_TRUE(std::regex_search(outcome.output, found, line)) << outcome.output;
  // The machine may be busy: the plan is of the right size.
  EXPECT_LT(std::stod(found[1]), 4 * std::stod(found[2])) << found[0];
  EXPECT_GT(std::stod(found[1]), std::stod(found[2]) / 20) << found[0];
  EXPECT_THAT(run_ranks(2, "short").output, ::testing::Not(HasSubstr("planned with the rates of this machine")));
}

TEST_F(Ranks, NameTheirWeightsByTheHashOfOneRankAtEachSnapshotAndInTheCheckpoint) {
  std::map<int, std::string> hashes;
  for (const int ranks : {1, 3}) {
    const std::string name = std::to_string(ranks);
    const Outcome outcome = run_ranks(ranks, name, {"--batch.micro", "4", "--checkpoint.every", "10"});
    std::smatch found;
    ASSERT_TRUE(std::regex_search(
        outcome.output, found,
        std::regex("snapshot of step 20 is in .*step-00000020 \\(.* s.*, parameters ([0-9a-f]{16})\\)")))
        << outcome.output;
    hashes[ranks] = found[1];
    EXPECT_THAT(outcome.output, ::testing::ContainsRegex("snapshot of step 10 .*, parameters [0-9a-f]"));
    EXPECT_THAT(run(trireme_command({"checkpoint", "show", path(name)})).output,
                HasSubstr("parameters  hash " + hashes[ranks] + "\n"));
    const std::string before = run(trireme_command({"checkpoint", "show", path(name) + "/step-00000010"})).output;
    EXPECT_THAT(before, ::testing::ContainsRegex("parameters  hash [0-9a-f]+\n"));
    EXPECT_THAT(before, ::testing::Not(HasSubstr(hashes[ranks]))) << "other weights, another hash";
  }
  EXPECT_EQ(hashes[1], hashes[3]);
}

TEST_F(Ranks, GiveTheLossOfOneRankAtTheSameGlobalBatch) {
  run_ranks(1, "one", {"--batch.micro", "12"});
  const auto expected = losses("one");
  for (const int ranks : {2, 3, 4}) {
    const std::string name = "several-" + std::to_string(ranks);
    run_ranks(ranks, name);
    const auto got = losses(name);
    ASSERT_EQ(got.size(), expected.size());
    for (const auto& [step, loss] : expected)
      EXPECT_NEAR(got.at(step), loss, 1e-5 * loss) << ranks << " ranks, step " << step;
  }
  EXPECT_LT(expected.at(20), expected.at(1) - 0.1) << "nothing was learned, so nothing was tested";
}

TEST_F(Ranks, StayTogetherWhenOneIsSlow) {
  run_ranks(1, "one", {"--batch.micro", "4"});
  Program program(mpirun_command(3, train("slowed", {"--batch.micro", "4"})));
  ASSERT_TRUE(program.wait_for([](const std::string& out) { return out.find("step  1/20") != std::string::npos; }))
      << program.output();
  const pid_t rank = first_rank_of(program);
  while (program.running()) {  // runs for a third of the time
    kill(rank, SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    kill(rank, SIGCONT);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const Outcome outcome = program.finish();
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(weights("one"), weights("slowed"));
}

TEST_F(Ranks, RoundGradientsToBf16OnTheWireAndStillLearn) {
  run_ranks(2, "exact");
  run_ranks(2, "rounded", {"--comm.wire", "bf16"});
  EXPECT_NE(weights("exact"), weights("rounded"));
  EXPECT_NEAR(losses("rounded").at(20), losses("exact").at(20), 0.02);
}

TEST_F(Ranks, ResumeOnAnotherNumberOfRanksWithTheSameSamples) {
  run_ranks(1, "never");
  run_ranks(3, "moved", {"--run.steps", "10", "--optim.decay-steps", "20"});
  const Outcome resumed = run_ranks(2, "moved");
  EXPECT_THAT(resumed.output, HasSubstr("RESUMING from"));
  EXPECT_EQ(progress("moved").samples, progress("never").samples);
  const auto expected = losses("never"), got = losses("moved");
  for (const auto& [step, loss] : expected) EXPECT_NEAR(got.at(step), loss, 1e-5 * loss) << step;
}

TEST_F(Ranks, RefuseABatchThatDoesNotDivide) {
  const Outcome outcome = run(mpirun_command(2, train("run", {"--batch.global", "13", "--batch.micro", "0"})));
  EXPECT_EQ(outcome.code, 2) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("13"));
}

}  // namespace
}  // namespace trireme
