// Wrongly started jobs: each reports its message and its fix once.

#include <fstream>

#include "base/host.h"
#include "tests/faults/fault_fixture.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

class WrongSetup : public FaultFixture {
 protected:
  void SetUp() override {
    if (!has_mpi()) GTEST_SKIP() << "mpirun is missing";
  }
  /// The same command on three ranks, in which $RANK is the rank.
  static Outcome run_shell(const std::string& script) {
    return run({mpirun_path(), "-n", "3", "sh", "-c", "RANK=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; " + script});
  }
  static std::string quoted(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += word + " ";
    return text;
  }
};

TEST_F(WrongSetup, AWrongOptionOfAllRanksIsReportedOnce) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--model.widht", "3"}, "did you mean \"model.width\"?"},
      {{"--batch.global", "7"}, "cannot be divided evenly among 3 data-parallel ranks"},
      {{"--mesh.data", "2"}, "needs 2 processes but"},
      {{"--data.train", "absent.bin"}, "the token file "},
      {{"stray"}, "stray"},
  };
  for (const auto& [flags, message] : cases) {
    const Outcome outcome = run(mpirun_command(3, train("run", flags)));
    EXPECT_EQ(outcome.code, flags[1 % flags.size()] == "absent.bin" ? 1 : 2) << outcome.output;
    EXPECT_EQ(count_of(outcome.output, "error: "), 1) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(message));
  }
}

TEST_F(WrongSetup, AnErrorOnOneRankNamesRankAndHost) {
  // Rank 2 lacks the configuration's file, as on a host where it was not copied.
  auto words = train("run");
  words[1] = "$(test $RANK = 2 && echo " + path("absent.yaml") + " || echo " + path("config.yaml") + ")";
  const Outcome outcome = run_shell("exec " + trireme_path() + " " + quoted(words));
  EXPECT_NE(outcome.code, 0);
  EXPECT_EQ(count_of(outcome.output, "error: "), 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("error: rank 2 on " + host_name() + ": "));
  EXPECT_THAT(outcome.output, HasSubstr("absent.yaml"));
}

TEST_F(WrongSetup, AnotherBinaryOnOneRankIsNamed) {
  // Another build differs in the commit that it names.
  const std::string version = run(trireme_command({"--version"})).output;
  const size_t first = version.find("commit ") + 7;
  const std::string commit = version.substr(first, version.find(')') - first);
  std::string binary = read_text(trireme_path());
  ASSERT_NE(binary.find(commit), std::string::npos) << commit;
  for (size_t at = binary.find(commit); at != std::string::npos; at = binary.find(commit, at)) binary[at] = '?';
  const std::string other = path("other-trireme");
  std::ofstream(other, std::ios::binary) << binary;
  std::filesystem::permissions(other, std::filesystem::perms::owner_all);
  const Outcome outcome = run_shell("test $RANK = 1 && exec " + other + " " + quoted(train("run")) + "; exec " +
                                    trireme_path() + " " + quoted(train("run")));
  EXPECT_EQ(outcome.code, 2) << outcome.output;
  EXPECT_EQ(count_of(outcome.output, "error: "), 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("ranks do not run the same program: rank 1 on "));
  EXPECT_THAT(outcome.output, HasSubstr("install the same trireme binary on every host"));
}

TEST_F(WrongSetup, AnotherBinaryOfTheSameVersionIsNamedByItsChecksum) {
  const std::string other = path("other-trireme");
  std::filesystem::copy_file(trireme_path(), other);
  std::ofstream(other, std::ios::binary | std::ios::app) << '\0';
  const Outcome outcome = run_shell("test $RANK = 1 && exec " + other + " " + quoted(train("run")) + "; exec " +
                                    trireme_path() + " " + quoted(train("run")));
  EXPECT_EQ(outcome.code, 2) << outcome.output;
  EXPECT_EQ(count_of(outcome.output, "error: "), 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("ranks do not run the same program: rank 1 on "));
  EXPECT_THAT(outcome.output, ::testing::ContainsRegex(
                                  "rank 0 has \"executable with XXH3 [0-9a-f]{16}\", rank 1 has \"executable with"));
}

TEST_F(WrongSetup, ARankThatNeverReachesMpiEndsTheWaitWithItsNumber) {
  for (const char* absent : {"/bin/true", "sleep 100"}) {
    SCOPED_TRACE(absent);
    // The others start later: Open MPI ends a job at once in which a rank ends after others have called MPI_Init.
    const Outcome outcome = run_shell(std::string("test $RANK = 1 && exec ") + absent + "; sleep 1; exec " +
                                      trireme_path() + " " + quoted(train("run", {"--run.start-timeout", "3"})));
    if (!mpirun_is_hydra()) {  // which gives its own code
      EXPECT_EQ(outcome.code, 76) << outcome.output;
    }
    EXPECT_EQ(count_of(outcome.output, "error: "), 1) << outcome.output;
    EXPECT_THAT(outcome.output,
                HasSubstr("error: 2 of 3 ranks have reached MPI_Init in 3 s; rank 1 has not: it has ended "
                          "or runs another program; start the same command on all ranks"));
    EXPECT_FALSE(std::filesystem::exists(path("run"))) << "nothing is touched";
  }
}

// Each mpirun has its own library opened; only a wish for another one ends so.
TEST_F(WrongSetup, TheMpirunOfAnotherMpiIsNamedWithTheFix) {
  const std::string foreign = mpirun_is_hydra() ? "mpirun.openmpi" : "mpirun.mpich";
  if (run({"sh", "-c", "command -v " + foreign}).code != 0) GTEST_SKIP() << foreign << " is not installed";
  auto words = mpirun_command(2, train("run", {"--run.mpi", mpirun_is_hydra() ? "mpich" : "openmpi"}));
  words[0] = foreign;
  const Outcome outcome = run(words);
  EXPECT_NE(outcome.code, 0);
  EXPECT_THAT(outcome.output,
              ::testing::ContainsRegex("error: 2 processes started by .* each see a world of 1: .* did not connect "
                                       "through that starter; use the mpirun that belongs to it, or name the MPI"));
  EXPECT_FALSE(std::filesystem::exists(path("run"))) << "nothing is touched";
}

TEST_F(FaultFixture, ProcessesThatWouldEachTrainAloneRefuse) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"OMPI_COMM_WORLD_SIZE=3", "OMPI_COMM_WORLD_RANK=1"}, "3 processes started by mpirun of Open MPI"},
      {{"PMI_SIZE=3", "PMI_RANK=1"}, "3 processes started by a PMI starter"},
      {{"SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=3", "SLURM_NTASKS=3", "SLURM_PROCID=0", "SLURM_JOB_ID=7"},
       "3 processes started by srun"},
  };
  for (const auto& [environment, message] : cases) {
    const Outcome outcome = run(trireme_command(train("run")), environment);
    EXPECT_EQ(outcome.code, 2) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(message));
    EXPECT_FALSE(std::filesystem::exists(path("run"))) << "nothing is touched";
  }
}

}  // namespace
}  // namespace trireme
