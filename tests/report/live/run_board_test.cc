#include "report/live/run_board.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string shown(const RunBoard& board) { return board.exposition(MetricFormat::prometheus); }

TEST(RunBoard, ShowsWhatTheRecordsSay) {
  RunBoard board("small", "4711", 2, 3);
  board.start({.first_step = 10, .steps = 100, .facts = {{"model", "tiny"}, {"model", "again"}, {"2 rows", "x"}}});
  std::string text = shown(board);
  EXPECT_THAT(text, HasSubstr("trireme_step_total{run=\"small\",slurm_job=\"4711\"} 10\n"));
  EXPECT_THAT(text,
              HasSubstr("trireme_run_info{run=\"small\",slurm_job=\"4711\",model=\"tiny\",fact_2_rows=\"x\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("trireme_restarts_total{run=\"small\",slurm_job=\"4711\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("trireme_running{run=\"small\",slurm_job=\"4711\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("trireme_loss")));

  board.step_time(11, 0.2, 0.05);
  board.step({.step = 11, .loss = 3.5, .tokens = 4096, .skipped = 1, .values = {{"rewards/margins", 0.25}}});
  board.evaluation({.step = 11, .train_loss = {}, .validation_loss = 3.25, .values = {{"accuracy", 0.5}}});
  board.checkpoint({.step = 11, .path = "x", .seconds = 0.5});
  text = shown(board);
  for (const char* line :
       {"trireme_step_total{L} 11\n", "trireme_loss{L} 3.5\n", "trireme_tokens_total{L} 4096\n",
        "trireme_step_measure{L,measure=\"rewards/margins\"} 0.25\n", "trireme_skipped_steps_total{L} 1\n",
        "trireme_validation_loss{L} 3.25\n", "trireme_evaluation_measure{L,measure=\"accuracy\"} 0.5\n",
        "trireme_checkpoints_total{L} 1\n", "trireme_checkpoint_last_step{L} 11\n",
        "trireme_step_duration_seconds_bucket{L,le=\"0.25\"} 1\n",
        "trireme_step_duration_seconds_bucket{L,le=\"0.1\"} 0\n", "trireme_step_wait_seconds_sum{L} 0.05\n"}) {
    std::string expected = line;
    expected.replace(expected.find('L'), 1, "run=\"small\",slurm_job=\"4711\"");
    EXPECT_THAT(text, HasSubstr(expected));
  }
  board.finish("rolled-back");
  EXPECT_THAT(shown(board), HasSubstr("trireme_running{run=\"small\",slurm_job=\"4711\"} 1\n"));
  board.finish("done");
  EXPECT_THAT(shown(board), HasSubstr("trireme_running{run=\"small\",slurm_job=\"4711\"} 0\n"));
}

TEST(RunBoard, FactsDoNotRepeatTheLabelsOfEverySample) {
  RunBoard board("small", "4711", 1, 0);
  board.start(
      {.first_step = 0, .steps = 100, .facts = {{"run", "x"}, {"slurm job", "y"}, {"fact run", "z"}, {"<<a", "b"}}});
  EXPECT_THAT(
      shown(board),
      HasSubstr(
          "trireme_run_info{run=\"small\",slurm_job=\"4711\",fact_run=\"x\",fact_slurm_job=\"y\",fact___a=\"b\"} 1\n"));
}

TEST(RunBoard, ShowsTheMemoryOfAGpu) {
  RunBoard board("small", "", 1, 0);
  board.start({.first_step = 0, .steps = 100, .facts = {{"gpu", "a card"}}});
  board.step({.step = 1});
  EXPECT_THAT(shown(board), Not(HasSubstr("trireme_gpu_")));
  board.step({.step = 2, .gpu_memory_bytes = 3'000'000'000, .gpu_memory_size = 80'000'000'000});
  EXPECT_THAT(shown(board), HasSubstr("trireme_gpu_memory_used_bytes{run=\"small\",rank=\"0\"} 3000000000\n"));
  EXPECT_THAT(shown(board), HasSubstr("trireme_gpu_memory_size_bytes{run=\"small\",rank=\"0\"} 80000000000\n"));
  EXPECT_THAT(board.page(), HasSubstr("Memory in use of the GPU, GB"));
}

TEST(RunBoard, ShowsTheGpuOfEachRank) {
  RunBoard board("small", "", 2, 0);
  board.start({.first_step = 0, .steps = 100, .facts = {{"gpu", "a card"}}});
  Metrics metrics{.step = 2, .gpu_memory_bytes = 3'000'000'000, .gpu_memory_size = 80'000'000'000};
  metrics.gpus = {{.busy = 0.5, .watts = 300, .celsius = 50, .memory_used = 3e9, .memory_size = 8e10, .errors = 0},
                  {.busy = 0.75, .memory_used = 4e9, .memory_size = 8e10, .slowdowns = 0x48}};
  metrics.gpu = summary_of(metrics.gpus);
  board.step(metrics);
  for (const char* line :
       {"# HELP trireme_gpu_busy_ratio Part of the last log interval in which a kernel ran on the rank's GPU.\n"
        "# TYPE trireme_gpu_busy_ratio gauge\ntrireme_gpu_busy_ratio{run=\"small\",rank=\"0\"} 0.5\n"
        "trireme_gpu_busy_ratio{run=\"small\",rank=\"1\"} 0.75\n",
        "trireme_gpu_memory_used_bytes{run=\"small\",rank=\"1\"} 4000000000\n",
        "trireme_gpu_power_watts{run=\"small\",rank=\"0\"} 300\n",
        "trireme_gpu_temperature_celsius{run=\"small\",rank=\"0\"} 50\n",
        "trireme_gpu_uncorrected_errors_total{run=\"small\",rank=\"0\"} 0\n",
        "trireme_gpu_clock_slowdown{run=\"small\",rank=\"1\",reason=\"hw_slowdown\"} 1\n",
        "trireme_gpu_clock_slowdown{run=\"small\",rank=\"1\",reason=\"hw_thermal_slowdown\"} 1\n"})
    EXPECT_THAT(shown(board), HasSubstr(line));
  EXPECT_THAT(shown(board), Not(HasSubstr("trireme_gpu_power_watts{run=\"small\",rank=\"1\"}"))) << "it is not known";
  EXPECT_THAT(board.page(), HasSubstr("Time in which the GPUs were busy"));
  EXPECT_THAT(board.page(), HasSubstr("Temperature of the hottest GPU"));
}

TEST(RunBoard, ShowsEveryRankAndForgetsThemWhenTold) {
  RunBoard board("r", "", 2, 0);
  board.watch([] {
    return std::vector<RankView>{{.rank = 0, .host = "a", .place = {}, .step = 7, .phase = "step", .waits_for = {}},
                                 {.rank = 1,
                                  .host = "b",
                                  .place = {},
                                  .step = 6,
                                  .phase = "step",
                                  .waits_for = "x",
                                  .waited = 1.5,
                                  .connected = false}};
  });
  EXPECT_THAT(shown(board), HasSubstr("trireme_rank_up{run=\"r\",rank=\"0\",host=\"a\"} 1\n"));
  EXPECT_THAT(shown(board), HasSubstr("trireme_rank_up{run=\"r\",rank=\"1\",host=\"b\"} 0\n"));
  EXPECT_THAT(shown(board), HasSubstr("trireme_rank_step{run=\"r\",rank=\"1\",host=\"b\"} 6\n"));
  EXPECT_THAT(shown(board), HasSubstr("trireme_rank_wait_seconds{run=\"r\",rank=\"1\",host=\"b\"} 1.5\n"));
  board.unwatch();
  EXPECT_THAT(shown(board), Not(HasSubstr("trireme_rank_up")));
}

TEST(RunBoard, ShowsTheTimeOfEachRanksOwnWork) {
  RunBoard board("r", "", 2, 0);
  board.start({.first_step = 0, .steps = 40, .facts = {}});
  Metrics metrics;
  metrics.step = 10;
  metrics.rank_seconds = {0.25, 0.5};
  metrics.slowest = slowest_of(metrics.rank_seconds);
  board.step(metrics);
  EXPECT_THAT(shown(board), HasSubstr("trireme_rank_busy_seconds{run=\"r\",rank=\"1\"} 0.5\n"));
  EXPECT_THAT(board.page(), HasSubstr("Slowest rank"));
}

TEST(RunBoard, ShowsARunOfWhichItHasOnlyTheFile) {
  RunBoard board("old", "", 1, 0);
  RunLog log;
  log.total_steps = 20;
  log.attempts = {{0, 15, 1, 9, "stopped"}};
  board.set_earlier(log);
  EXPECT_THAT(board.page(), HasSubstr("<p>Ended at step 15 of 20</p>"));
  board.start({.first_step = 15, .steps = 20, .facts = {}});
  EXPECT_THAT(board.page_body(), HasSubstr("<p>Training at step 15 of 20</p>"));
  EXPECT_THAT(board.page_body(), HasSubstr("<td>stopped</td>"));
}

TEST(TextfileSink, ReplacesTheFileAsAWhole) {
  const TemporaryFolder folder;
  auto board = std::make_shared<RunBoard>("r", "", 1, 0);
  const auto sink = make_textfile_sink(board, folder / "trireme.prom");
  sink->start({});
  EXPECT_THAT(read_text(folder / "trireme.prom"), HasSubstr("trireme_running{run=\"r\"} 1\n"));
  board->step({.step = 3, .loss = 1.5});
  sink->step({});  // within a second of the last
  EXPECT_THAT(read_text(folder / "trireme.prom"), Not(HasSubstr("trireme_loss")));
  board->finish("done");
  sink->finish("done", 3);
  EXPECT_THAT(read_text(folder / "trireme.prom"), HasSubstr("trireme_loss{run=\"r\"} 1.5\n"));
  EXPECT_THAT(read_text(folder / "trireme.prom"), HasSubstr("trireme_running{run=\"r\"} 0\n"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);  // no temporary file
}

TEST(TextfileSink, AFolderThatDoesNotExistIsAnError) {
  const auto sink = make_textfile_sink(std::make_shared<RunBoard>("r", "", 1, 0), "/nonexistent/x.prom");
  EXPECT_ERROR(sink->start({}), ErrorKind::io, "cannot write /nonexistent/x.prom: No such file or directory");
}

}  // namespace
}  // namespace trireme
