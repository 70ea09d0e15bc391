// `trireme bench comm` over real ranks.

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "tests/runs/program.h"
#include "tests/support/paths.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> bench_comm(std::vector<std::string> words) {
  words.insert(words.begin(), {"bench", "comm"});
  return words;
}

class BenchComm : public testing::Test {
 protected:
  void SetUp() override {
    if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  }
};

TEST_F(BenchComm, EveryCollectiveTypeAndOperationIsRightOnThreeRanks) {
  const TemporaryFolder folder;
  const std::string file = folder / "result.json";
  // 25 KB is not a multiple of any chunk; every rank is root once.
  const Outcome outcome = run(mpirun_command(3, bench_comm({"all", "-b", "25000", "-e", "25000", "-n", "1", "-d", "all",
                                                            "-o", "all", "-r", "all", "-J", file})));
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  const Json result = read_json(file);
  std::map<std::string, int> rows;
  for (const Json& row : result.at("results")) {
    ++rows[row.at("collective")];
    EXPECT_EQ(row.at("in_place").at("nwrong"), 0) << row;
    EXPECT_GT(row.at("in_place").at("time").get<double>(), 0) << row;
    const bool is_gradient = row.at("collective") == "gradient";
    EXPECT_TRUE(is_gradient || row.at("out_of_place").at("nwrong") == 0) << row;
  }
  // 10 types; 5 operations where something is reduced; 3 roots where there is one.
  EXPECT_EQ(rows, (std::map<std::string, int>{{"all_reduce", 50},
                                              {"all_gather", 10},
                                              {"reduce_scatter", 50},
                                              {"broadcast", 30},
                                              {"reduce", 150},
                                              {"alltoall", 10},
                                              {"gather", 30},
                                              {"scatter", 30},
                                              {"sendrecv", 10},
                                              {"gradient", 1}}));
  EXPECT_TRUE(result.at("out_of_bounds").at("okay"));
  EXPECT_THAT(outcome.output, HasSubstr("# Out of bounds values : 0 OK\n# Avg bus bandwidth    : "));
}

TEST_F(BenchComm, ShowsTheTrainersReductionBesideTheLibrarysAndItsVerdict) {
  const Outcome outcome =
      run(mpirun_command(2, bench_comm({"gradient", "-b", "1M", "-e", "2M", "-f", "2", "-n", "2"})));
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("f32/bf16"));
  EXPECT_THAT(outcome.output, HasSubstr("of ping-pong"));
  EXPECT_THAT(outcome.output, HasSubstr("\n     2097152  ")) << "its line of the comparison";
  EXPECT_THAT(outcome.output, HasSubstr("# Link: shared memory of "));
  EXPECT_THAT(
      outcome.output,
      testing::ContainsRegex("# gradient +: [0-9.]+ GB/s read and written at 2097152 bytes, [0-9]+ % of a copy by all "
                             "ranks at the same time: (as expected|below the memory's rate|poor)"));
}

TEST_F(BenchComm, TooLittleBandwidthIsExitCodeOne) {
  const std::vector<std::string> words = bench_comm({"-b", "1K", "-e", "1K", "-n", "1"});
  std::vector<std::string> flagged = words;
  flagged.insert(flagged.end(), {"--min-bandwidth", "1e6"});
  const Outcome slow = run(mpirun_command(2, flagged));
  EXPECT_EQ(slow.code, 1) << slow.output;
  EXPECT_THAT(slow.output, HasSubstr(" FAILED (below 1e+06)"));
  const Outcome told = run(mpirun_command(2, words), {"NCCL_TESTS_MIN_BW=1000"});
  EXPECT_EQ(told.code, 1) << told.output;
  EXPECT_THAT(told.output, HasSubstr("FAILED (below 900)"));
  EXPECT_EQ(run(mpirun_command(2, words), {"NCCL_TESTS_MIN_BW=1e-9"}).code, 0);
}

TEST_F(BenchComm, TakesACommandLineOfNcclTests) {
  const Outcome outcome = run(
      mpirun_command(2, bench_comm({"-b", "8", "-e", "32", "-f", "2", "-g", "1", "-t", "1", "-c", "1", "-n", "2",
                                    "-w", "1", "-m", "3",  "-N", "2", "-p", "0", "-z", "0", "-G", "0", "-a", "3"})));
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("step: 2(factor) warmup iters: 1 iters: 2 agg iters: 3 validation: 1\n"));
  size_t rows = 0;
  for (size_t at = 0; (at = outcome.output.find("\n           8 ", at)) != std::string::npos; ++at) ++rows;
  EXPECT_EQ(rows, 2u) << "all sizes twice: " << outcome.output;
}

TEST_F(BenchComm, PrintsNothingWhenRanksAreNotConnected) {
  const Outcome outcome = run(trireme_command(bench_comm({})), {"OMPI_COMM_WORLD_SIZE=3", "PMI_SIZE=3"});
  EXPECT_EQ(outcome.code, 2) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("see a world of 1"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("busbw")));
  const Outcome one = run(mpirun_command(1, bench_comm({})));
  EXPECT_EQ(one.code, 2) << one.output;
  EXPECT_THAT(one.output, HasSubstr("a single process has no other rank to exchange data with"));
  EXPECT_THAT(one.output, Not(HasSubstr("busbw")));
}

TEST_F(BenchComm, ASizeThatTakesTooLongEndsTheJob) {
  const Outcome outcome = run(mpirun_command(2, bench_comm({"-b", "64M", "-e", "64M", "-n", "100000", "-T", "3"})));
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("all_reduce of 67108864 bytes took longer than -T 3 s"));
}

TEST(BenchCommLogs, AreComparedWithoutRanks) {
  const TemporaryFolder folder;
  const std::string head =
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
      "#wrong\n";
  write_text(folder / "a.log", head + " 8 2 float sum -1 10.0 1.0 2.0 0 10.0 1.0 2.0 0\n");
  write_text(folder / "b.log", head + " 8 2 float sum -1 5.0 2.0 4.0 0 5.0 2.0 4.0 0\n");
  const Outcome outcome =
      run(trireme_command(bench_comm({"--compare", folder / "a.log", "--compare", folder / "b.log"})));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("    5.0      4.00    2.00\n"));
  const Outcome alone = run(trireme_command(bench_comm({})));
  EXPECT_EQ(alone.code, 2);
  EXPECT_THAT(alone.output, HasSubstr("this process was started without a launcher"));
}

TEST(BenchCommLogs, WrongFlagsAreRefusedBeforeAnyRankIsAskedFor) {
  const auto expect_refused = [](const std::vector<std::string>& words, const std::string& message) {
    const Outcome outcome = run(trireme_command(bench_comm(words)));
    EXPECT_EQ(outcome.code, 2) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(message));
  };
  expect_refused({"hypercube"}, "\"hypercube\" is not supported");
  expect_refused({"-b", "2G", "-e", "1G"}, "is above -e");
  expect_refused({"-d", "fp8"}, "-d fp8: expected int8");
  expect_refused({"-r", "x"}, "-r x: expected a rank or all");
  expect_refused({"-g", "8"}, "-g 8: each rank is a process with its own GPU; start 8 ranks: `mpirun -n 8 trireme");
  expect_refused({"--wire", "f16"}, "--wire");
  for (const char* flag :
       {"--parallel-init", "--blocking", "--cudagraph", "--report-cputime", "--local-register", "--memory-report"}) {
    expect_refused({flag, "1"}, std::string(flag) + ": Value 1 not in range ");  // then the version's form
  }
  const Outcome split = run(trireme_command(bench_comm({})), {"NCCL_TESTS_SPLIT=MOD 2"});
  EXPECT_EQ(split.code, 2) << split.output;
  EXPECT_THAT(split.output, HasSubstr("NCCL_TESTS_SPLIT is set, but measuring ranks in groups is not supported"));
}

}  // namespace
}  // namespace trireme
