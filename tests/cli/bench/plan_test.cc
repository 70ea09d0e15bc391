#include "cli/bench/benchmarks.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::HasSubstr;

constexpr const char* kHeader =
    "# GPUs,global batch,micro batch,hidden size,attention heads,# layers,sequence length,tensor parallelism,data "
    "parallelism,pipeline parallelism,iteration time (ms)\n";

TEST(BenchPlan, PrintsAndWritesHowFarThePlanIsFromTheRuns) {
  const TemporaryFolder folder;
  const std::string runs = folder / "runs.csv", json = folder / "result.json";
  write_text(runs, std::string(kHeader) +
                       "16,64,1,2048,16,24,2048,8,2,1,2000\n16,64,2,2048,16,24,2048,8,2,1,1900\n"
                       "16,64,2,2048,16,24,2048,4,4,1,1500\n16,64,1,2048,16,24,2048,4,4,1,1600\n"
                       "16,64,2,2048,16,24,2048,2,8,1,1300\n16,64,4,2048,16,24,2048,2,8,1,1250\n");
  testing::internal::CaptureStdout();
  const int code = bench_plan_command({"--runs", runs, "--json", json, "--rows"});
  const std::string printed = testing::internal::GetCapturedStdout();
  EXPECT_EQ(code, 0);
  for (const char* word : {"fitted on 2 runs", "mean_error", "spearman", "choice_loss", "judged      4", "2.000 s"})
    EXPECT_THAT(printed, HasSubstr(word));
  const Json result = read_json(json);
  EXPECT_EQ(result["judged"], 4);
  EXPECT_EQ(result["runs"].size(), 6);
  EXPECT_GT(result["mean_error"].get<double>(), 0);
  EXPECT_LT(result["mean_error"].get<double>(), 0.5);
  EXPECT_GE(result["choice_loss_max"].get<double>(), result["choice_loss"].get<double>());
  EXPECT_TRUE(result.contains("spearman"));
}

TEST(BenchPlan, AFewRunsHaveNoRankCorrelation) {
  const TemporaryFolder folder;
  const std::string runs = folder / "runs.csv", json = folder / "result.json";
  write_text(runs, std::string(kHeader) + "16,64,1,2048,16,24,2048,8,2,1,2000\n16,64,2,2048,16,24,2048,8,2,1,1900\n");
  testing::internal::CaptureStdout();
  EXPECT_EQ(bench_plan_command({"--runs", runs, "--json", json}), 0);
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              HasSubstr("spearman    unknown: no model has three judged runs\n"));
  EXPECT_TRUE(read_json(json)["spearman"].is_null());
}

TEST(BenchPlan, RefusesAFileWithoutRunsAndAnUnknownNode) {
  const TemporaryFolder folder;
  const std::string runs = folder / "runs.csv";
  write_text(runs, kHeader);
  EXPECT_ERROR(bench_plan_command({"--runs", runs}), ErrorKind::data, "no runs; expected a line for each");
  EXPECT_ERROR(bench_plan_command({"--runs", runs, "--node", "a100-80g"}), ErrorKind::config,
               "unknown node type \"a100-80g\", nearest is \"a100-80gb\"");
}

}  // namespace
}  // namespace trireme
